package jackline.example;

import com.google.gson.Gson;
import com.google.protobuf.Any;
import com.google.protobuf.ByteString;
import com.google.protobuf.InvalidProtocolBufferException;
import com.google.rpc.ErrorInfo;
import io.grpc.Context;
import io.grpc.Grpc;
import io.grpc.InsecureChannelCredentials;
import io.grpc.ManagedChannel;
import io.grpc.Metadata;
import io.grpc.StatusRuntimeException;
import io.grpc.protobuf.StatusProto;
import io.grpc.stub.MetadataUtils;
import jackline.v1.AbortCommand;
import jackline.v1.ControlRequest;
import jackline.v1.ControlResponse;
import jackline.v1.PauseCommand;
import jackline.v1.ReceiptStage;
import jackline.v1.RunFinished;
import jackline.v1.RunServiceGrpc;
import jackline.v1.RunServiceGrpc.RunServiceBlockingStub;
import jackline.v1.StartRunRequest;
import jackline.v1.StartRunResponse;
import jackline.v1.SteerCommand;
import jackline.v1.StepEvent;
import jackline.v1.StreamProgressRequest;
import jackline.v1.StreamProgressResponse;
import java.util.ArrayList;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import java.util.concurrent.TimeUnit;

/**
 * Takes one run through its life with a Jackline server: starts it, watches it, cuts the stream, steers, resumes where
 * the stream was cut, aborts, and reads why a further command is refused.
 *
 * <p>Prints one JSON object a step. JACKLINE_ADDRESS names the server, 127.0.0.1:50051 unless set; JACKLINE_TOKEN is
 * required. The workflow and its input may be given as arguments.
 */
public final class Example {
  private static final long CALL_SECONDS = 15;
  private static final long WATCH_SECONDS = 120;
  private static final String INPUT =
      "{\"message\": \"My lamp is broken, please refund it.\", \"order_id\": \"A-1001\", \"shop\": \"eu\"}";
  private static final Gson JSON = new Gson();

  private final RunServiceBlockingStub runs;

  private Example(RunServiceBlockingStub runs) {
    this.runs = runs;
  }

  public static void main(String[] arguments) throws InterruptedException {
    String workflow = arguments.length > 0 ? arguments[0] : "refunds";
    String input = arguments.length > 1 ? arguments[1] : INPUT;
    try {
      run(workflow, input);
    } catch (StatusRuntimeException error) {
      fail(error.getStatus().getCode().name(), explain(error).getReason(), error);
    } catch (IllegalStateException error) {
      fail("", "", error);
    }
  }

  private static void run(String workflow, String input) throws InterruptedException {
    ManagedChannel channel = connect();
    try {
      new Example(RunServiceGrpc.newBlockingStub(channel).withInterceptors(
          MetadataUtils.newAttachHeadersInterceptor(bearer()))).takeThroughItsLife(workflow, input);
    } finally {
      channel.shutdownNow().awaitTermination(5, TimeUnit.SECONDS);
    }
  }

  private void takeThroughItsLife(String workflow, String input) {
    // The request id makes it safe to send this again when no answer came.
    StartRunResponse started = within(CALL_SECONDS).startRun(StartRunRequest.newBuilder()
        .setWorkflow(workflow)
        .setInputJson(ByteString.copyFromUtf8(input))
        .setRequestId("example-" + UUID.randomUUID())
        .build());
    String runId = started.getRun().getRunId();
    show("started", Map.of("run_id", runId, "disposition", bare(started.getDisposition(), "START_DISPOSITION_")));

    Watcher watcher = new Watcher(runId);
    Followed first = watcher.follow(StepEvent.FactCase.MODEL_CALL_STARTED);
    show("cut", Map.of("sequences", first.sequences(), "sent_through", watcher.position));

    ControlResponse steered = within(CALL_SECONDS).control(ControlRequest.newBuilder()
        .setRunId(runId)
        .setCommandId("example-" + UUID.randomUUID())
        .setSteer(SteerCommand.newBuilder().setText("The customer is a regular: be generous."))
        .build());
    show("steered", Map.of("stage", bare(steered.getReceipt().getStage(), "RECEIPT_STAGE_")));

    long after = watcher.position;
    Followed second = watcher.follow(StepEvent.FactCase.STEERED);
    show("resumed", Map.of(
        "after_sequence", after, "sequences", second.sequences(), "sent_through", watcher.position));

    ControlResponse aborted = within(CALL_SECONDS).control(ControlRequest.newBuilder()
        .setRunId(runId)
        .setReason("The example is over.")
        .setWait(ReceiptStage.RECEIPT_STAGE_SETTLED)
        .setAbort(AbortCommand.newBuilder().setSkipRoutes(true))
        .build());
    show("aborted", Map.of(
        "disposition", bare(aborted.getReceipt().getDisposition(), "COMMAND_DISPOSITION_"),
        "reached", aborted.getReached()));

    Followed last = watcher.follow(StepEvent.FactCase.RUN_FINISHED);
    RunFinished end = last.event().getRunFinished();
    show("finished", Map.of(
        "sequences", last.sequences(),
        "state", bare(end.getState(), "RUN_STATE_"),
        "stop_reason", bare(end.getStopReason(), "STOP_REASON_")));

    // Errors are told apart by their reason, never by their text.
    try {
      within(CALL_SECONDS).control(ControlRequest.newBuilder()
          .setRunId(runId).setPause(PauseCommand.getDefaultInstance()).build());
    } catch (StatusRuntimeException error) {
      ErrorInfo info = explain(error);
      if (info.getReason().isEmpty()) {
        throw error;
      }
      show("refused", Map.of(
          "code", error.getStatus().getCode().name(),
          "reason", info.getReason(),
          "metadata", info.getMetadataMap()));
      return;
    }
    throw new IllegalStateException("a pause of a finished run was not refused");
  }

  /** The sequences that were taken, and the event that was waited for. */
  private record Followed(List<Long> sequences, StepEvent event) {}

  /** Reads the events of one run over as many streams as it takes. */
  private final class Watcher {
    private final String runId;

    /** Every event up to this one has been taken: where the next stream starts. */
    private long position;

    Watcher(String runId) {
      this.runId = runId;
    }

    /**
     * Reads on from the position until an event holds the wanted fact, and cuts the stream there. A stream that ends
     * before the run has throws; it is never an end.
     */
    Followed follow(StepEvent.FactCase wanted) {
      try (Context.CancellableContext cut = Context.current().withCancellation()) {
        Context before = cut.attach();
        try {
          return read(wanted);
        } finally {
          cut.detach(before);
        }
      }
    }

    private Followed read(StepEvent.FactCase wanted) {
      Iterator<StreamProgressResponse> stream = within(WATCH_SECONDS).streamProgress(
          StreamProgressRequest.newBuilder().setRunId(runId).setAfterSequence(position).build());
      List<Long> sequences = new ArrayList<>();
      while (stream.hasNext()) {
        StreamProgressResponse frame = stream.next();
        StepEvent found = null;
        for (StepEvent event : frame.getEventsList()) {
          if (event.getSequence() != position + 1) {
            throw new IllegalStateException("event " + event.getSequence() + " follows event " + position);
          }
          position = event.getSequence();
          sequences.add(position);
          if (found == null && event.getFactCase() == wanted) {
            found = event;
          }
        }
        if (frame.getSentThrough() != position) {
          throw new IllegalStateException(
              "sent through " + frame.getSentThrough() + ", and event " + position + " was the last");
        }
        if (found != null) {
          return new Followed(sequences, found);
        }
      }
      throw new IllegalStateException("the run ended at event " + position + " without what was waited for");
    }
  }

  private RunServiceBlockingStub within(long seconds) {
    return runs.withDeadlineAfter(seconds, TimeUnit.SECONDS);
  }

  /** Connects in plaintext, for a server on this machine. Elsewhere the token needs TLS: TlsChannelCredentials. */
  private static ManagedChannel connect() {
    String address = System.getenv().getOrDefault("JACKLINE_ADDRESS", "127.0.0.1:50051");
    return Grpc.newChannelBuilder(address, InsecureChannelCredentials.create()).build();
  }

  /** What sends the token with every call. */
  private static Metadata bearer() {
    String token = System.getenv("JACKLINE_TOKEN");
    if (token == null || token.isEmpty()) {
      throw new IllegalStateException(
          "JACKLINE_TOKEN is not set; `jackline token print` shows the token of a server on this machine");
    }
    Metadata headers = new Metadata();
    headers.put(Metadata.Key.of("authorization", Metadata.ASCII_STRING_MARSHALLER), "Bearer " + token);
    return headers;
  }

  /** The server's reason for an error; an empty one if it gave none. */
  private static ErrorInfo explain(StatusRuntimeException error) {
    com.google.rpc.Status status = StatusProto.fromThrowable(error);
    List<Any> details = status == null ? List.of() : status.getDetailsList();
    for (Any detail : details) {
      try {
        if (detail.is(ErrorInfo.class) && detail.unpack(ErrorInfo.class).getDomain().equals("jackline")) {
          return detail.unpack(ErrorInfo.class);
        }
      } catch (InvalidProtocolBufferException unreadable) {
        continue; // Details that can't be read are as good as none.
      }
    }
    return ErrorInfo.getDefaultInstance();
  }

  private static void fail(String code, String reason, Exception error) {
    show("failed", Map.of("code", code, "reason", reason, "message", String.valueOf(error.getMessage())));
    System.exit(1);
  }

  private static void show(String step, Map<String, ?> values) {
    Map<String, Object> line = new LinkedHashMap<>(Map.of("step", step));
    line.putAll(values);
    System.out.println(JSON.toJson(line));
  }

  private static String bare(Enum<?> value, String prefix) {
    return value.name().startsWith(prefix) ? value.name().substring(prefix.length()) : value.name();
  }
}
