"""What a page does when it is clicked: tables sort, series of plots come and go."""

SCRIPT = """
"use strict";
const number = text => parseFloat(text.replace(/,/g, ""));
function sortBy(head) {
  const table = head.closest("table"), column = head.cellIndex, body = table.tBodies[0];
  const up = head.getAttribute("aria-sort") !== "ascending", sign = up ? 1 : -1;
  for (const other of head.parentNode.cells) other.removeAttribute("aria-sort");
  head.setAttribute("aria-sort", up ? "ascending" : "descending");
  const cells = [...body.rows].map(row => [row.cells[column].textContent.trim(), row]);
  const known = cells.filter(([text]) => !isNaN(number(text))).length * 2 > cells.length;
  cells.sort(([a], [b]) => {
    if (!known) return sign * a.localeCompare(b, "en", {numeric: true});
    const x = number(a), y = number(b);
    return isNaN(x) || isNaN(y) ? isNaN(x) - isNaN(y) : sign * (x - y);
  });
  body.append(...cells.map(([, row]) => row));
}
function toggle(label) {
  const series = label.id.replace(/legend-(\\d+)$/, "series-$1-");
  const off = label.classList.toggle("off");
  label.setAttribute("aria-pressed", String(!off));
  for (const each of label.closest("svg").querySelectorAll(`[id^="${CSS.escape(series)}"]`))
    each.style.display = off ? "none" : "";
}
const acts = [["main table thead th", sortBy], ["svg [id*='-legend-']", toggle]];
for (const [what, act] of acts)
  for (const each of document.querySelectorAll(what)) {
    if (act === toggle && !/-legend-\\d+$/.test(each.id)) continue;
    each.classList.add("clicks");
    each.tabIndex = 0;
    if (act === toggle) each.setAttribute("role", "button");
    each.addEventListener("click", () => act(each));
    each.addEventListener("keydown", event => {
      if (event.key === "Enter" || event.key === " ") { event.preventDefault(); act(each); }
    });
  }
""".strip()
