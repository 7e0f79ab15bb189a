package jackline.example;

import com.google.gson.Gson;
import com.google.gson.annotations.SerializedName;
import io.grpc.Grpc;
import io.grpc.InsecureChannelCredentials;
import jackline.worker.Call;
import jackline.worker.Result;
import jackline.worker.Tool;
import jackline.worker.ToolException;
import jackline.worker.Worker;
import jackline.worker.WorkerRefusedException;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.regex.Pattern;

/**
 * Serves three tools to a Jackline server as a worker: {@code seats_left}, which reads, {@code reserve_seat}, which counts
 * once however often it is called with one call key, and {@code print_ticket}, which prints anew each time.
 *
 * <p>What it did stands in its own ledger, one JSON object a line. Environment:
 *
 * <pre>
 * JACKLINE_ADDRESS  the server; 127.0.0.1:50051 unless set
 * JACKLINE_TOKEN    a token with the scope `tools:serve`; required
 * SEATS_POOL        the pool; seats unless set
 * SEATS_LEDGER      the ledger; seats.jsonl unless set
 * SEATS_WORKER      what the worker is called; the host and the process unless set
 * SEATS_HOLD        a file: while it exists, no call that has begun ends. To see what a kill or a cancel does.
 * </pre>
 *
 * <p>SIGTERM and SIGINT make it finish what it has begun.
 */
public final class Seats {
  private static final int SEATS_OF_A_PLANE = 30;
  private static final long HOLD_EVERY_MS = 20;
  private static final Pattern FLIGHTS = Pattern.compile("JL[0-9]+");
  private static final Gson JSON = new Gson();
  private static final String FLIGHT = "\"flight\": {\"type\": \"string\", \"description\": \"Such as JL42.\"}";
  private static final String SEAT = "\"seat\": {\"type\": \"string\", \"description\": \"Such as 12A.\"}";

  private final Path ledger = Path.of(environ("SEATS_LEDGER", "seats.jsonl"));
  private final Path hold = Path.of(environ("SEATS_HOLD", ""));
  private final String name = environ("SEATS_WORKER", "");

  /** The arguments of every tool. */
  private record Place(String flight, String seat) {}

  /** A line of the ledger. */
  private record Entry(
      String tool,
      @SerializedName("call_key") String callKey,
      int attempt,
      String worker,
      String flight,
      String seat) {}

  private Result left(Call call) throws IOException, InterruptedException {
    Place asked = asked(call);
    long taken;
    synchronized (this) {
      taken = entries().stream()
          .filter(line -> line.tool().equals("reserve_seat") && line.flight().equals(asked.flight()))
          .count();
      add(call, asked);
    }
    work(call);
    return Result.json(JSON.toJson(Map.of("flight", asked.flight(), "left", SEATS_OF_A_PLANE - taken)));
  }

  /** Does its work once a call key: another attempt finds what the first one did. */
  private Result reserve(Call call) throws IOException, InterruptedException {
    Place wanted = asked(call);
    synchronized (this) {
      List<Entry> reserved = entries().stream().filter(line -> line.tool().equals("reserve_seat")).toList();
      if (reserved.stream().noneMatch(line -> line.callKey().equals(call.callKey()))) {
        if (reserved.stream().anyMatch(line -> new Place(line.flight(), line.seat()).equals(wanted))) {
          throw ToolException.failed("seat " + wanted.seat() + " of " + wanted.flight() + " is taken");
        }
        add(call, wanted);
      }
    }
    work(call);
    return Result.json(JSON.toJson(
        Map.of("flight", wanted.flight(), "seat", wanted.seat(), "reservation", call.callKey())));
  }

  private Result print(Call call) throws IOException, InterruptedException {
    Place wanted = asked(call);
    synchronized (this) {
      add(call, wanted);
    }
    work(call);
    return Result.text("printed: " + wanted.flight() + ", seat " + wanted.seat());
  }

  /** There are flights that do not go well, to see what failures look like. */
  private static Place asked(Call call) {
    Place place = JSON.fromJson(call.arguments(), Place.class);
    if (!FLIGHTS.matcher(place.flight()).matches()) {
      throw ToolException.failed("there is no flight " + place.flight());
    }
    if (place.flight().equals("JL503")) {
      throw ToolException.transientFailure("the reservation system is busy", Duration.ofMillis(200));
    }
    if (place.flight().equals("JL500")) { // Nothing that anybody else may read:
      throw new IllegalStateException("login of seats with password `secret` failed");
    }
    return place;
  }

  /** Ends at once, unless it is held. */
  private void work(Call call) throws InterruptedException {
    call.progress("written down", 0.5);
    while (!hold.toString().isEmpty() && Files.exists(hold)) {
      Thread.sleep(HOLD_EVERY_MS);
      call.progress("held");
    }
  }

  private List<Entry> entries() throws IOException {
    List<Entry> found = new ArrayList<>();
    if (Files.exists(ledger)) {
      for (String line : Files.readAllLines(ledger, StandardCharsets.UTF_8)) {
        if (line.endsWith("}")) { // A kill may have cut the last one.
          found.add(JSON.fromJson(line, Entry.class));
        }
      }
    }
    return found;
  }

  private void add(Call call, Place place) throws IOException {
    Entry line = new Entry(call.tool(), call.callKey(), call.attempt(), name, place.flight(), place.seat());
    Files.writeString(ledger, JSON.toJson(line) + "\n", StandardOpenOption.CREATE, StandardOpenOption.APPEND);
  }

  private Worker worker(String token) {
    String address = environ("JACKLINE_ADDRESS", "127.0.0.1:50051");
    String one = "{\"type\": \"object\", \"properties\": {" + FLIGHT + "}, \"required\": [\"flight\"]}";
    String two =
        "{\"type\": \"object\", \"properties\": {" + FLIGHT + ", " + SEAT + "}, \"required\": [\"flight\", \"seat\"]}";
    // Plaintext, for a server on this machine. Elsewhere the token needs TLS: TlsChannelCredentials.
    Worker.Builder worker = Worker.builder(
            () -> Grpc.newChannelBuilder(address, InsecureChannelCredentials.create()).build())
        .token(() -> token)
        .pool(environ("SEATS_POOL", "seats"))
        .maxParallel(4)
        .tool(Tool.builder("seats_left", "How many seats a flight has left.")
            .parameters(one)
            .effect(Tool.Effect.READ)
            .cancellable(true)
            .handler(this::left)
            .build())
        .tool(Tool.builder("reserve_seat", "Reserves a seat of a flight.")
            .parameters(two)
            .effect(Tool.Effect.IDEMPOTENT)
            .cancellable(true)
            .handler(this::reserve)
            .build())
        .tool(Tool.builder("print_ticket", "Prints a ticket for a seat of a flight.")
            .parameters(two)
            .effect(Tool.Effect.WRITE)
            .maxParallel(1) // There is one printer.
            .handler(this::print)
            .build());
    return (name.isEmpty() ? worker : worker.name(name)).build();
  }

  public static void main(String[] arguments) throws InterruptedException {
    String token = environ("JACKLINE_TOKEN", "");
    if (token.isEmpty()) {
      System.err.println(
          "JACKLINE_TOKEN is not set; `jackline token print` shows the token of a server on this machine");
      System.exit(1);
    }
    Worker worker = new Seats().worker(token);
    worker.drainOnShutdown();
    try {
      worker.run();
    } catch (WorkerRefusedException | IllegalStateException ended) {
      System.err.println(ended.getMessage());
      System.exit(1);
    }
  }

  private static String environ(String name, String otherwise) {
    String value = System.getenv(name);
    return value == null || value.isEmpty() ? otherwise : value;
  }
}
