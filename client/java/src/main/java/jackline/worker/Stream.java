package jackline.worker;

import io.grpc.ManagedChannel;
import io.grpc.Metadata;
import io.grpc.Status;
import io.grpc.stub.ClientCallStreamObserver;
import io.grpc.stub.MetadataUtils;
import io.grpc.stub.StreamObserver;
import jackline.v1.ConnectRequest;
import jackline.v1.ConnectResponse;
import jackline.v1.RegisterWorker;
import jackline.v1.ToolWorkerServiceGrpc;
import jackline.v1.WorkerDrain;
import jackline.v1.WorkerHeartbeat;
import java.util.ArrayDeque;
import java.util.Deque;
import java.util.Iterator;
import java.util.LinkedHashSet;
import java.util.Set;
import java.util.concurrent.ScheduledFuture;

/**
 * One stream: what it has to send and in which order, when it is half-closed, and whether the server is still heard.
 * Everything but the three methods that gRPC calls happens on the session's loop.
 */
final class Stream implements StreamObserver<ConnectResponse> {
  private static final long WELCOME_WITHIN_MS = 10_000;
  private static final long PROGRESS_EVERY_MS = 100;
  private static final int SILENT_BEATS = 3;
  private static final int LARGEST_RECEIVED = 64 << 20;

  private final Session session;
  private final ManagedChannel channel;
  private final ClientCallStreamObserver<ConnectRequest> wire;
  private final Deque<Invocation> results = new ArrayDeque<>();
  private final Set<Invocation> moved = new LinkedHashSet<>(); // Those with progress to send.
  private boolean welcomed;
  private boolean drainSent;
  private boolean drained; // The server has said that it invokes nothing more.
  private boolean closed; // Everything is acknowledged, and the stream half-closed.
  private boolean over;
  private long heartbeatMs;
  private long lastSentMs;
  private ScheduledFuture<?> watchdog;
  private ScheduledFuture<?> timer;

  /** Opens the stream, over a connection of its own: one that has gone silent would take the next stream as well. */
  Stream(Session session, ManagedChannel channel, String token, RegisterWorker register) {
    this.session = session;
    this.channel = channel;
    this.drainSent = register.getDraining();
    Metadata headers = new Metadata();
    headers.put(Metadata.Key.of("authorization", Metadata.ASCII_STRING_MARSHALLER), "Bearer " + token);
    wire = (ClientCallStreamObserver<ConnectRequest>) ToolWorkerServiceGrpc.newStub(channel)
        .withInterceptors(MetadataUtils.newAttachHeadersInterceptor(headers))
        .withMaxInboundMessageSize(LARGEST_RECEIVED)
        .connect(this);
    wire.onNext(ConnectRequest.newBuilder().setRegister(register).build());
    watch(WELCOME_WITHIN_MS, "the server does not answer");
  }

  // Called by gRPC, on its threads.

  @Override
  public void onNext(ConnectResponse message) {
    session.execute(() -> heard(message));
  }

  @Override
  public void onError(Throwable error) {
    session.execute(() -> end(Ending.of(error)));
  }

  @Override
  public void onCompleted() {
    session.execute(() -> end(Ending.of("the server ended the stream")));
  }

  // On the loop.

  boolean welcomed() {
    return welcomed;
  }

  boolean closed() {
    return closed;
  }

  /** A result is there. Before the welcome nobody knows whether it will be wanted; the welcome finds it. */
  void add(Invocation call) {
    if (welcomed) {
      moved.remove(call);
      results.add(call);
      pump();
    }
  }

  /** An invocation has come further. */
  void move(Invocation call) {
    if (welcomed && moved.add(call)) {
      pump();
    }
  }

  private void heard(ConnectResponse message) {
    if (over) {
      return; // The session may live on another stream.
    }
    if (!welcomed) {
      if (!message.hasWelcome()) {
        cut("the server's first message is no welcome");
        return;
      }
      welcomed = true;
      heartbeatMs = Times.millis(message.getWelcome().getHeartbeat());
      lastSentMs = session.nowMs();
      session.welcomed(message.getWelcome());
      for (Invocation call : session.calls()) {
        if (call.result != null) {
          results.add(call);
        } else if (call.progress != null) {
          moved.add(call);
        }
      }
    } else if (message.hasDrain()) {
      drained = true;
    } else {
      session.take(message);
    }
    watch(SILENT_BEATS * heartbeatMs, "nothing was heard of the server for " + SILENT_BEATS * heartbeatMs + " ms");
    pump();
  }

  private void watch(long ms, String why) {
    if (watchdog != null) {
      watchdog.cancel(false);
    }
    watchdog = session.schedule(() -> cut(why), ms);
  }

  private void cut(String why) {
    end(Ending.of(why));
  }

  private void end(Ending ending) {
    if (over) {
      return;
    }
    over = true;
    watchdog.cancel(false);
    if (timer != null) {
      timer.cancel(false);
    }
    wire.cancel(ending.why(), Status.CANCELLED.asException());
    channel.shutdownNow();
    session.ended(this, ending);
  }

  /** Sends what there is to send. */
  void pump() {
    if (!welcomed || over || closed) {
      return;
    }
    for (ConnectRequest message = next(); message != null; message = next()) {
      lastSentMs = session.nowMs();
      wire.onNext(message);
    }
    if (drained && session.calls().isEmpty()) {
      closed = true;
      wire.onCompleted();
      return;
    }
    if (timer != null) {
      timer.cancel(false);
    }
    timer = session.schedule(this::pump, pauseMs());
  }

  private ConnectRequest next() {
    ConnectRequest.Builder message = ConnectRequest.newBuilder();
    if (session.leaving() && !drainSent) {
      drainSent = true;
      return message.setDrain(WorkerDrain.getDefaultInstance()).build();
    }
    if (!results.isEmpty()) {
      return message.setResult(results.remove().result).build();
    }
    long now = session.nowMs();
    Iterator<Invocation> reports = moved.iterator();
    while (wire.isReady() && reports.hasNext()) {
      Invocation call = reports.next();
      if (call.progressAtMs + PROGRESS_EVERY_MS <= now) {
        reports.remove();
        message.setProgress(call.progress);
        call.progress = null;
        call.progressAtMs = now;
        return message.build();
      }
    }
    if (now - lastSentMs >= heartbeatMs) {
      return message.setHeartbeat(WorkerHeartbeat.getDefaultInstance()).build();
    }
    return null;
  }

  /** How long there will be nothing to send. */
  private long pauseMs() {
    long now = session.nowMs();
    long due = lastSentMs + heartbeatMs;
    for (Invocation call : moved) {
      // What is due and was not sent waits for the connection to take more.
      due = Math.min(due, Math.max(call.progressAtMs, now - PROGRESS_EVERY_MS / 2) + PROGRESS_EVERY_MS);
    }
    return Math.max(due - now, 1);
  }
}
