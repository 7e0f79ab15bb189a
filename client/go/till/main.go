// A till: the gRPC service that Jackline's steps of kind grpc are tried with. It serves reflection, and writes each
// refund and charge to a ledger before it answers.
//
//	go run ./till -listen 127.0.0.1:7071 -ledger ledger.jsonl
//
//	[connections.till]                       # jackline.toml
//	kind = "grpc"
//	target = "127.0.0.1:7071"
package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"flag"
	"fmt"
	"log"
	"net"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	pb "jackline/client/go/till/tillv1"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/reflection"
	"google.golang.org/grpc/status"
)

type till struct {
	pb.UnimplementedTillServer
	ledger string
	mu     sync.Mutex
	paid   map[string]bool
}

func one(ctx context.Context, name string) string {
	given, _ := metadata.FromIncomingContext(ctx)
	if values := given.Get(name); len(values) > 0 {
		return values[0]
	}
	return ""
}

// write appends one line and returns once the disk has it.
func (t *till) write(what, key string, asked *pb.RefundRequest) error {
	file, err := os.OpenFile(t.ledger, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer file.Close()
	line, _ := json.Marshal(map[string]any{"what": what, "key": key, "order": asked.GetOrderId(), "cents": asked.GetCents()})
	if _, err = file.Write(append(line, '\n')); err != nil {
		return err
	}
	return file.Sync()
}

func (t *till) reply(ctx context.Context, asked *pb.RefundRequest) (*pb.RefundReply, error) {
	select {
	case <-time.After(time.Duration(asked.GetHoldNs())):
	case <-ctx.Done():
		return nil, status.FromContextError(ctx.Err()).Err()
	}
	_, bounded := ctx.Deadline()
	return &pb.RefundReply{
		Done: true, Key: one(ctx, "idempotency-key"), SubjectJson: one(ctx, "jackline-subject-bin"),
		Traceparent: one(ctx, "traceparent"), Authorization: one(ctx, "authorization"), HasDeadline: bounded,
	}, nil
}

func (t *till) Refund(ctx context.Context, asked *pb.RefundRequest) (*pb.RefundReply, error) {
	key := one(ctx, "idempotency-key")
	t.mu.Lock()
	if !t.paid[key] {
		if err := t.write("refund", key, asked); err != nil {
			t.mu.Unlock()
			return nil, status.Error(codes.Internal, "the ledger can't be written")
		}
		t.paid[key] = true
	}
	t.mu.Unlock()
	return t.reply(ctx, asked)
}

func (t *till) Charge(ctx context.Context, asked *pb.RefundRequest) (*pb.RefundReply, error) {
	if err := t.write("charge", one(ctx, "idempotency-key"), asked); err != nil {
		return nil, status.Error(codes.Internal, "the ledger can't be written")
	}
	return t.reply(ctx, asked)
}

func (t *till) GetOrder(_ context.Context, asked *pb.GetOrderRequest) (*pb.Order, error) {
	if asked.GetOrderId() == "" {
		return nil, status.Error(codes.InvalidArgument, "an order has a number")
	}
	return &pb.Order{OrderId: asked.GetOrderId(), TotalCents: 1 << 60, Status: pb.Status_STATUS_PAID, Goods: []string{"lamp"}}, nil
}

func (t *till) Echo(_ context.Context, asked *pb.Everything) (*pb.Everything, error) {
	return asked, nil
}

func secured(certificate, key, clients string) grpc.ServerOption {
	pair, err := tls.LoadX509KeyPair(certificate, key)
	if err != nil {
		log.Fatal(err)
	}
	config := &tls.Config{Certificates: []tls.Certificate{pair}}
	if clients != "" {
		data, err := os.ReadFile(clients)
		if err != nil {
			log.Fatal(err)
		}
		config.ClientCAs = x509.NewCertPool()
		config.ClientCAs.AppendCertsFromPEM(data)
		config.ClientAuth = tls.RequireAndVerifyClientCert
	}
	return grpc.Creds(credentials.NewTLS(config))
}

func main() {
	listen := flag.String("listen", "127.0.0.1:7071", "where to listen; port 0 takes a free one")
	ledger := flag.String("ledger", "ledger.jsonl", "the file that refunds and charges are written to")
	certificate := flag.String("certificate", "", "serve TLS with this certificate")
	key := flag.String("key", "", "and this key")
	clients := flag.String("clients", "", "ask for a certificate that one of these signed")
	flag.Parse()

	listener, err := net.Listen("tcp", *listen)
	if err != nil {
		log.Fatal(err)
	}
	var options []grpc.ServerOption
	if *certificate != "" {
		options = append(options, secured(*certificate, *key, *clients))
	}
	server := grpc.NewServer(options...)
	pb.RegisterTillServer(server, &till{ledger: *ledger, paid: map[string]bool{}})
	reflection.Register(server)
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	go func() {
		<-ctx.Done()
		stop() // A second signal does what it always does.
		server.Stop()
	}()
	fmt.Printf("listening on %s\n", listener.Addr())
	if err := server.Serve(listener); err != nil {
		log.Fatal(err)
	}
}
