package main

import (
	"encoding/json"
	"fmt"
	"slices"

	"jackline/client/go/jacklinev1"
)

// A rule of this supervisor: what it counts in a run, how much is too much, and what it does then, once a run.
type rule struct {
	When  string `json:"when"`  // calls, failures (in a row) or tokens.
	Tool  string `json:"tool"`  // Of calls and failures: this tool alone; empty for any.
	Count uint64 `json:"count"` // From so many on.
	Then  string `json:"then"`  // pause, steer or abort.
	Text  string `json:"text"`  // What a steered model is told, and the reason of a pause or an abort.
}

const rulesHelp = `
A rule is {"when": …, "tool": …, "count": …, "then": …, "text": …}, and acts once a run:

  when   calls: so many tool calls have ended; failures: so many in a row did not succeed; tokens: so many are used
  tool   of calls and failures: of this tool alone; left out: of any
  count  from so many on, at least 1
  then   pause, steer or abort
  text   what a steered model is told, which steer needs; else the reason of the pause or the abort

A run that begins and ends between two looks (-every) is not seen. Exit code: 0 stopped, 2 the command line is wrong,
77 no token, or one that the server refuses.
`

// A decision is one command. Its id is made of what led to it alone: whoever sees the same events, at any time, makes the
// same command of them, and the server carries it out once.
type decision struct {
	commandID string
	rule      rule
}

// A run as the rules see it: a fold of its events.
type watched struct {
	runID    string
	rules    []rule
	position uint64 // Every event up to this one was sent, or left out by the kinds that were asked for.
	finished bool
	fired    []bool
	calls    map[string]uint64
	failures map[string]uint64
	tokens   uint64
}

// The kinds of events that the rules look at.
var kinds = []string{"tool_call_finished", "model_replied"}

func newWatched(runID string, rules []rule) *watched {
	return &watched{
		runID:    runID,
		rules:    rules,
		fired:    make([]bool, len(rules)),
		calls:    map[string]uint64{},
		failures: map[string]uint64{},
	}
}

// take folds an event, and returns what it leads to. An event that was taken before leads to nothing.
func (w *watched) take(event *jacklinev1.StepEvent) []decision {
	if event.GetSequence() <= w.position {
		return nil
	}
	w.position = event.GetSequence()
	switch {
	case event.GetRunFinished() != nil:
		w.finished = true
		return nil
	case event.GetModelReplied() != nil:
		w.tokens = event.GetModelReplied().GetTokensUsed()
	case event.GetToolCallFinished() != nil:
		w.count(event.GetToolCallFinished())
	}
	var found []decision
	for index, rule := range w.rules {
		if !w.fired[index] && w.value(rule) >= rule.Count {
			w.fired[index] = true
			id := fmt.Sprintf("supervisor-%s-%d-%d", w.runID, index, w.position)
			found = append(found, decision{commandID: id, rule: rule})
		}
	}
	return found
}

func (w *watched) count(call *jacklinev1.ToolCallFinished) {
	for _, tool := range []string{"", call.GetTool()} {
		w.calls[tool]++
		if call.GetStatus() == jacklinev1.ToolCallStatus_TOOL_CALL_STATUS_COMPLETED {
			w.failures[tool] = 0
		} else {
			w.failures[tool]++
		}
	}
}

func (w *watched) value(rule rule) uint64 {
	switch rule.When {
	case "calls":
		return w.calls[rule.Tool]
	case "failures":
		return w.failures[rule.Tool]
	default:
		return w.tokens
	}
}

// request makes the command of a decision.
func (d decision) request(runID string) *jacklinev1.ControlRequest {
	request := &jacklinev1.ControlRequest{RunId: runID, CommandId: d.commandID, Reason: d.rule.Text}
	switch d.rule.Then {
	case "steer":
		request.Command = &jacklinev1.ControlRequest_Steer{Steer: &jacklinev1.SteerCommand{Text: d.rule.Text}}
	case "pause":
		request.Command = &jacklinev1.ControlRequest_Pause{Pause: &jacklinev1.PauseCommand{}}
	default:
		request.Command = &jacklinev1.ControlRequest_Abort{Abort: &jacklinev1.AbortCommand{}}
	}
	return request
}

func parseRules(text string) ([]rule, error) {
	var rules []rule
	if err := json.Unmarshal([]byte(text), &rules); err != nil {
		return nil, fmt.Errorf("the rules are no JSON list: %w", err)
	}
	for index, rule := range rules {
		if !slices.Contains([]string{"calls", "failures", "tokens"}, rule.When) {
			return nil, fmt.Errorf("rule %d: `when` is calls, failures or tokens", index)
		}
		if !slices.Contains([]string{"pause", "steer", "abort"}, rule.Then) {
			return nil, fmt.Errorf("rule %d: `then` is pause, steer or abort", index)
		}
		if rule.Count == 0 {
			return nil, fmt.Errorf("rule %d: `count` is at least 1", index)
		}
		if rule.Then == "steer" && rule.Text == "" {
			return nil, fmt.Errorf("rule %d: `steer` needs a `text`", index)
		}
	}
	return rules, nil
}
