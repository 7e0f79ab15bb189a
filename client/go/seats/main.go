// Command seats serves three tools to a Jackline server as a worker: `seats_left`, which reads, `reserve_seat`, which
// counts once however often it is called with one call key, and `print_ticket`, which prints anew each time.
//
// What it did stands in its own ledger, one JSON object a line. Environment:
//
//	JACKLINE_ADDRESS  the server; 127.0.0.1:50051 unless set
//	JACKLINE_TOKEN    a token with the scope `tools:serve`; required
//	SEATS_POOL        the pool; seats unless set
//	SEATS_LEDGER      the ledger; seats.jsonl unless set
//	SEATS_WORKER      what the worker is called; the host and the process unless set
//	SEATS_HOLD        a file: while it exists, no call that has begun ends. To see what a kill or a cancel does.
//
// SIGTERM and SIGINT make it finish what it has begun; a second one ends it at once.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"regexp"
	"sync"
	"syscall"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"jackline/client/go/worker"
)

const (
	seatsOfAPlane = 30
	holdEvery     = 20 * time.Millisecond
)

var flights = regexp.MustCompile(`^JL[0-9]+$`)

type looking struct {
	Flight string `json:"flight"`
}

type place struct {
	Flight string `json:"flight"`
	Seat   string `json:"seat"`
}

// entry is a line of the ledger.
type entry struct {
	Tool    string `json:"tool"`
	CallKey string `json:"call_key"`
	Attempt int    `json:"attempt"`
	Worker  string `json:"worker"`
	Flight  string `json:"flight"`
	Seat    string `json:"seat,omitempty"`
}

// seats is the system that the tools work on.
type seats struct {
	ledger, hold, worker string
	mu                   sync.Mutex // Guards the ledger.
}

func (s *seats) left(ctx context.Context, call *worker.Call, asked looking) (any, error) {
	if err := flies(asked.Flight); err != nil {
		return nil, err
	}
	s.mu.Lock()
	lines, err := s.read()
	if err == nil {
		err = s.add(entryOf(call, s.worker, asked.Flight, ""))
	}
	s.mu.Unlock()
	if err != nil {
		return nil, err
	}
	taken := 0
	for _, line := range lines {
		if line.Tool == "reserve_seat" && line.Flight == asked.Flight {
			taken++
		}
	}
	if err := s.work(ctx, call); err != nil {
		return nil, err
	}
	return map[string]any{"flight": asked.Flight, "left": seatsOfAPlane - taken}, nil
}

// reserve does its work once a call key: another attempt finds what the first one did.
func (s *seats) reserve(ctx context.Context, call *worker.Call, wanted place) (any, error) {
	if err := flies(wanted.Flight); err != nil {
		return nil, err
	}
	if err := s.take(call, wanted); err != nil {
		return nil, err
	}
	if err := s.work(ctx, call); err != nil {
		return nil, err
	}
	return map[string]any{"flight": wanted.Flight, "seat": wanted.Seat, "reservation": call.CallKey}, nil
}

func (s *seats) take(call *worker.Call, wanted place) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	lines, err := s.read()
	if err != nil {
		return err
	}
	for _, line := range lines {
		switch {
		case line.Tool != "reserve_seat":
		case line.CallKey == call.CallKey:
			return nil
		case line.Flight == wanted.Flight && line.Seat == wanted.Seat:
			return worker.Failed(fmt.Sprintf("seat %s of %s is taken", wanted.Seat, wanted.Flight))
		}
	}
	return s.add(entryOf(call, s.worker, wanted.Flight, wanted.Seat))
}

func (s *seats) print(ctx context.Context, call *worker.Call, wanted place) (any, error) {
	if err := flies(wanted.Flight); err != nil {
		return nil, err
	}
	s.mu.Lock()
	err := s.add(entryOf(call, s.worker, wanted.Flight, wanted.Seat))
	s.mu.Unlock()
	if err != nil {
		return nil, err
	}
	if err := s.work(ctx, call); err != nil {
		return nil, err
	}
	return fmt.Sprintf("printed: %s, seat %s", wanted.Flight, wanted.Seat), nil
}

// flies has flights that do not go well, to see what failures look like.
func flies(flight string) error {
	switch {
	case !flights.MatchString(flight):
		return worker.Failed(fmt.Sprintf("there is no flight %q", flight))
	case flight == "JL503":
		return worker.Transient("the reservation system is busy", 200*time.Millisecond)
	case flight == "JL500":
		return errors.New("login of seats with password `secret` failed") // Nothing that anybody else may read.
	}
	return nil
}

// work ends at once, unless it is held.
func (s *seats) work(ctx context.Context, call *worker.Call) error {
	call.ProgressAt(0.5, "written down")
	for {
		if _, err := os.Stat(s.hold); s.hold == "" || err != nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(holdEvery):
			call.Progress("held")
		}
	}
}

func (s *seats) read() ([]entry, error) {
	file, err := os.Open(s.ledger)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer file.Close()
	var lines []entry
	for scanner := bufio.NewScanner(file); scanner.Scan(); {
		var line entry
		if json.Unmarshal(scanner.Bytes(), &line) == nil { // A kill may have cut the last one.
			lines = append(lines, line)
		}
	}
	return lines, nil
}

func (s *seats) add(line entry) error {
	file, err := os.OpenFile(s.ledger, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer file.Close()
	return json.NewEncoder(file).Encode(line)
}

func entryOf(call *worker.Call, name, flight, seat string) entry {
	return entry{
		Tool: call.Tool, CallKey: call.CallKey, Attempt: call.Attempt, Worker: name, Flight: flight, Seat: seat,
	}
}

func (s *seats) tools() []worker.Tool {
	flight := `"flight": {"type": "string", "description": "Such as JL42."}`
	one := json.RawMessage(`{"type": "object", "properties": {` + flight + `}, "required": ["flight"]}`)
	two := json.RawMessage(`{"type": "object", "properties": {` + flight +
		`, "seat": {"type": "string", "description": "Such as 12A."}}, "required": ["flight", "seat"]}`)
	return []worker.Tool{{
		Name:        "seats_left",
		Description: "How many seats a flight has left.",
		Parameters:  one,
		Effect:      worker.Read,
		Cancellable: true,
		Handle:      worker.JSON(s.left),
	}, {
		Name:        "reserve_seat",
		Description: "Reserves a seat of a flight.",
		Parameters:  two,
		Effect:      worker.Idempotent,
		Cancellable: true,
		Handle:      worker.JSON(s.reserve),
	}, {
		Name:        "print_ticket",
		Description: "Prints a ticket for a seat of a flight.",
		Parameters:  two,
		Effect:      worker.Write,
		MaxParallel: 1, // There is one printer.
		Handle:      worker.JSON(s.print),
	}}
}

func main() {
	if err := serve(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func serve() error {
	token := os.Getenv("JACKLINE_TOKEN")
	if token == "" {
		return errors.New("JACKLINE_TOKEN is not set; `jackline token print` shows the token of a server on this machine")
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // A second signal does what it always does.
	system := &seats{
		ledger: environ("SEATS_LEDGER", "seats.jsonl"),
		hold:   os.Getenv("SEATS_HOLD"),
		worker: os.Getenv("SEATS_WORKER"),
	}
	return worker.Serve(ctx, worker.Config{
		Target: environ("JACKLINE_ADDRESS", "127.0.0.1:50051"),
		// Plaintext, for a server on this machine. Elsewhere the token needs TLS: replace insecure.NewCredentials by
		// credentials.NewTLS.
		DialOptions: []grpc.DialOption{
			grpc.WithTransportCredentials(insecure.NewCredentials()),
			grpc.WithPerRPCCredentials(bearer(token)),
		},
		Pool:        environ("SEATS_POOL", "seats"),
		Name:        system.worker,
		Tools:       system.tools(),
		MaxParallel: 4,
	})
}

func environ(name, otherwise string) string {
	if value := os.Getenv(name); value != "" {
		return value
	}
	return otherwise
}

// bearer sends the token with every call.
type bearer string

func (b bearer) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	return map[string]string{"authorization": "Bearer " + string(b)}, nil
}

func (bearer) RequireTransportSecurity() bool { return false }
