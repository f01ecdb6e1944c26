"""Every other problem: what cvxpy makes of it, in HiGHS if it is linear, else in Clarabel."""
from __future__ import annotations

import cvxpy as cp
import highspy
import numpy as np
import clarabel
from cvxpy.atoms.affine.binary_operators import DivExpression
from scipy import sparse

from apportion.policies.problem import Problem


def canonical(goal, constraints):
    """Return the cone program of a problem: c, A, b, cones, where the variables are."""
    problem = cp.Problem(goal, constraints)
    data = problem.get_problem_data(cp.CLARABEL)[0] if not problem.is_mixed_integer() else problem.get_problem_data(cp.HIGHS)[0]
    return problem, data


def run(goal, constraints):
    """Solve; return the optimal value, a relative gap, and leave values in the variables."""
    problem, data = canonical(goal, constraints)
    up = isinstance(goal, cp.Maximize)
    dims, A, b, c = data["dims"], data["A"], data["b"], data["c"]
    place = data["param_prob"].var_id_to_col
    linear = not (dims.soc or dims.exp or dims.psd or dims.p3d) and data.get("P") is None
    if linear:
        x, y, value, dual = _highs(c, A, b, dims.zero, data.get("bool_vars_idx", data.get("bool_idx", [])))
    else:
        s = clarabel.DefaultSettings()
        s.verbose = False
        s.tol_gap_abs = s.tol_gap_rel = s.tol_feas = 1e-10
        cones = [clarabel.ZeroConeT(dims.zero)] * (dims.zero > 0) + [clarabel.NonnegativeConeT(dims.nonneg)] * (dims.nonneg > 0)
        cones += [clarabel.SecondOrderConeT(k) for k in dims.soc] + [clarabel.ExponentialConeT()] * dims.exp + [clarabel.PowerConeT(a) for a in dims.p3d]
        P = data.get("P")
        P = sparse.csc_matrix((c.size, c.size)) if P is None else sparse.triu(P, format="csc")
        r = clarabel.DefaultSolver(P, c, sparse.csc_matrix(A), b, cones, s).solve()
        if "Solved" not in str(r.status):
            raise RuntimeError(str(r.status))
        x, y, value, dual = np.array(r.x), np.array(r.z), r.obj_val, r.obj_val_dual
    for v in problem.variables():
        if v.id in place:
            v.save_value(x[place[v.id] : place[v.id] + v.size].reshape(v.shape, order="F"))
    offset = data["param_prob"].apply_parameters()[1]
    value, dual = float(value + offset), float(dual + offset)
    gap = abs(value - dual) / max(abs(value), abs(dual), 1e-300)
    return (-value if up else value), gap, y, A, b


def _highs(c, A, b, zero, whole=()):
    """min c x, A x + s = b, s zero for the first rows, >= 0 for the others."""
    A = sparse.csc_matrix(A)
    lp = highspy.HighsLp()
    lp.num_col_, lp.num_row_ = c.size, b.size
    lp.col_cost_, lp.col_lower_, lp.col_upper_ = c, np.full(c.size, -np.inf), np.full(c.size, np.inf)
    lp.row_lower_, lp.row_upper_ = np.append(b[:zero], np.full(b.size - zero, -np.inf)), b
    lp.a_matrix_.format_ = highspy.MatrixFormat.kColwise
    lp.a_matrix_.start_, lp.a_matrix_.index_, lp.a_matrix_.value_ = A.indptr, A.indices, A.data
    whole = [int(np.ravel(i)[0]) for i in whole]
    if whole:
        kinds = [highspy.HighsVarType.kContinuous] * c.size
        for i in whole:
            kinds[i] = highspy.HighsVarType.kInteger
        lp.integrality_ = kinds
    h = highspy.Highs()
    for k, v in dict(output_flag=False, threads=1, primal_feasibility_tolerance=1e-9, dual_feasibility_tolerance=1e-9, mip_rel_gap=1e-9).items():
        h.setOptionValue(k, v)
    h.passModel(lp)
    h.run()
    if h.getModelStatus() != highspy.HighsModelStatus.kOptimal:
        raise RuntimeError(h.modelStatusToString(h.getModelStatus()))
    s, info = h.getSolution(), h.getInfo()
    x, y = np.array(s.col_value), -np.array(s.row_dual)
    return x, y, info.objective_function_value, (info.mip_dual_bound if whole else -float(b @ y))


def solve(policy, instance, second=True):
    """Solve a problem as it is stated: own variables and constraints, combinations, whole shares."""
    from apportion.policies.core.solve import Answer

    p = Problem(instance)
    if policy.integral:
        p.__dict__["X"] = cp.Variable((instance.rows, instance.options), boolean=True)
    goal, limits = policy.objective(p), []
    for earlier in getattr(policy, "earlier_objectives", lambda p: [])(p):
        stated = [*p.constraints, *policy.constraints(p), *limits]
        best = run(earlier, stated)[0]
        slack = 1e-9 * abs(best) + 1e-12
        limits.append(earlier.args[0] <= best + slack if isinstance(earlier, cp.Minimize) else earlier.args[0] >= best - slack)
    stated = [*p.constraints, *policy.constraints(p), *limits]
    e = goal.args[0]
    if isinstance(e, DivExpression) and not e.args[1].is_constant():
        made, paid = e.args  # Dinkelbach: the root of max made - ratio * paid
        ratio, gap = 0.0, 0.0
        stated.append(paid <= float(np.abs(instance.hourly_price).max() * instance.count.sum()))
        for _ in range(30):
            _, gap, y, A, b = run(cp.Maximize(made / max(ratio, 1.0) - (ratio / max(ratio, 1.0)) * paid), stated)
            if float(paid.value) <= 1e-12:
                break
            new = float(made.value) / float(paid.value)
            if abs(new - ratio) <= 1e-12 * abs(new):
                break
            ratio = new
        return Answer(p.X.value, ratio, 0.0, np.zeros(instance.capacity.size), "general ratio")
    value, gap, y, A, b = run(goal, stated)
    X = p.X.value
    prices = _prices(p, y, A, b, instance)
    if second and not policy.integral:
        slack = 1e-9 * abs(value)
        held = e >= value - slack if isinstance(goal, cp.Maximize) else e <= value + slack
        gain = (instance.throughput / np.where(instance.equal_share_throughput > 0, instance.equal_share_throughput, np.inf)[instance.member_job][:, None])
        total = cp.sum(cp.multiply(instance.count / np.where(instance.equal_share_throughput > 0, instance.equal_share_throughput, np.inf), p.throughput))
        try:
            run(cp.Maximize(total / float(np.abs(gain).max())), [*stated, held])
            X = p.X.value
        except (RuntimeError, cp.error.SolverError):
            p.X.save_value(X)
    return Answer(X, value, gap, prices, "general")


def _prices(p, y, A, b, instance):
    """Return the dual values of the capacities: the rows whose right side and cells are theirs."""
    R = instance.capacity.size
    A = sparse.csr_array(A)
    for i in np.flatnonzero(b == instance.capacity[0]).tolist():
        if i + R <= b.size and np.array_equal(b[i : i + R], instance.capacity) and np.diff(A[i : i + R].indptr).min() > 1:
            return np.maximum(y[i : i + R], 0.0)
    return np.full(R, np.nan)
