// A policy service: it lets a transfer of money start if its amount is known and under a limit, and every other call.
//
// Jackline asks it before each tool call of the workflows that name it. Run it, then tell the server and a workflow:
//
//	go run ./policy -listen 127.0.0.1:7070 -most 100
//
//	[policies.spending]                      # jackline.toml
//	target = "127.0.0.1:7070"
//
//	policy: {use: spending, view: full}      # the workflow
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"log"
	"net"
	"os/signal"
	"syscall"

	pb "jackline/client/go/jacklinev1"

	"google.golang.org/grpc"
)

// spending decides by the argument `amount` of the tool `transfer`.
type spending struct {
	pb.UnimplementedPolicyServiceServer
	most float64
}

// Check keeps no state: the server may ask about a call again after a crash, and gets the same answer.
func (s *spending) Check(_ context.Context, asked *pb.CheckRequest) (*pb.CheckResponse, error) {
	if asked.GetTool() != "transfer" {
		return &pb.CheckResponse{Decision: pb.PolicyDecision_POLICY_DECISION_ALLOW}, nil
	}
	if asked.GetView() == pb.ArgumentsView_ARGUMENTS_VIEW_METADATA {
		return denied("the amount is not shown; the workflow has to say `view: redacted` or `full`"), nil
	}
	var arguments struct {
		Amount *float64 `json:"amount"`
	}
	if err := json.Unmarshal(asked.GetArgumentsJson(), &arguments); err != nil || arguments.Amount == nil {
		return denied("a transfer needs an amount"), nil
	}
	if *arguments.Amount > s.most {
		return denied(fmt.Sprintf("%g is more than %g", *arguments.Amount, s.most)), nil
	}
	return &pb.CheckResponse{Decision: pb.PolicyDecision_POLICY_DECISION_ALLOW}, nil
}

func denied(reason string) *pb.CheckResponse {
	return &pb.CheckResponse{Decision: pb.PolicyDecision_POLICY_DECISION_DENY, Reason: reason}
}

func main() {
	listen := flag.String("listen", "127.0.0.1:7070", "where to listen; port 0 takes a free one")
	most := flag.Float64("most", 100, "the largest amount that may be transferred")
	flag.Parse()

	listener, err := net.Listen("tcp", *listen)
	if err != nil {
		log.Fatal(err)
	}
	server := grpc.NewServer()
	pb.RegisterPolicyServiceServer(server, &spending{most: *most})

	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	go func() {
		<-ctx.Done()
		stop() // A second signal does what it always does.
		server.GracefulStop()
	}()
	fmt.Printf("listening on %s\n", listener.Addr())
	if err := server.Serve(listener); err != nil {
		log.Fatal(err)
	}
}
