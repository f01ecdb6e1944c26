// A scheduler in Go that asks for decisions: starts `apportion decide`, and speaks lines of JSON.
//
//	go run examples/decide_client/main.go
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"os"
	"os/exec"
)

// Service answers one message after the other.
type Service struct {
	told    io.Writer
	answers *bufio.Reader
}

// Ask sends a message and waits for its answer; an answer with "ok": false is an error.
func (s *Service) Ask(message map[string]any) (map[string]any, error) {
	line, err := json.Marshal(message)
	if err != nil {
		return nil, err
	}
	if _, err := s.told.Write(append(line, '\n')); err != nil {
		return nil, err
	}
	text, err := s.answers.ReadBytes('\n')
	if err != nil {
		return nil, err
	}
	var answer map[string]any
	if err := json.Unmarshal(text, &answer); err != nil {
		return nil, err
	}
	if answer["ok"] != true {
		return nil, fmt.Errorf("refused: %v", answer["error"])
	}
	return answer, nil
}

func main() {
	name := "apportion"
	if len(os.Args) > 1 {
		name = os.Args[1]
	}
	command := exec.Command(name, "decide", "--policy", "max_min_fairness", "--cluster", "v100=1,k80=1")
	command.Stderr = os.Stderr
	told, err := command.StdinPipe()
	if err != nil {
		log.Fatal(err)
	}
	answers, err := command.StdoutPipe()
	if err != nil {
		log.Fatal(err)
	}
	if err := command.Start(); err != nil {
		log.Fatal(err)
	}
	service := &Service{told, bufio.NewReader(answers)}
	jobs := map[string]any{
		"ana": map[string]any{"throughputs": map[string]float64{"v100": 40, "k80": 10}},
		"ben": map[string]any{"throughputs": map[string]float64{"v100": 12, "k80": 4}},
	}
	for _, message := range []map[string]any{
		{"op": "add", "id": "1", "at_s": 0, "jobs": jobs},
		{"op": "decide", "id": "2", "at_s": 1},
		{"op": "explain", "id": "3", "at_s": 2, "job": "ana"},
	} {
		answer, err := service.Ask(message)
		if err != nil {
			log.Fatal(err)
		}
		text, _ := json.Marshal(answer)
		fmt.Println(string(text))
	}
	told.Close()
	if err := command.Wait(); err != nil {
		log.Fatal(err)
	}
}
