package jackline.worker;

import io.grpc.ManagedChannel;
import jackline.v1.ConnectResponse;
import jackline.v1.InvocationProgress;
import jackline.v1.InvocationResult;
import jackline.v1.RegisterWorker;
import jackline.v1.WorkerWelcome;
import java.util.Collection;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Executor;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.ScheduledFuture;
import java.util.concurrent.ScheduledThreadPoolExecutor;
import java.util.concurrent.Semaphore;
import java.util.concurrent.ThreadFactory;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;

/** One session with the server, over as many streams as it takes. Its state belongs to one thread, the loop. */
final class Session {
  /** A tool with the places for its calls. */
  record Served(Tool tool, Semaphore places) {}

  private static final long FIRST_WAIT_MS = 200;
  private static final long LONGEST_WAIT_MS = 10_000;
  private static final System.Logger LOG = System.getLogger("jackline.worker");

  private final Worker.Builder options;
  private final Executor executor;
  private final Map<String, Served> tools = new LinkedHashMap<>();
  private final Semaphore places;
  private final ScheduledThreadPoolExecutor loop = new ScheduledThreadPoolExecutor(1, daemons("jackline-worker"));
  private final CompletableFuture<Void> over = new CompletableFuture<>();

  private final Map<String, Invocation> calls = new LinkedHashMap<>(); // Those without an acknowledgement.
  private volatile int largest;
  private volatile boolean started;
  private boolean leaving;
  private String token = "";
  private long graceMs;
  private boolean unanswered; // A register has had no answer: its stream may still come to live at the server.
  private Stream stream; // Null between streams.
  private long waitMs = FIRST_WAIT_MS;
  private long brokenAtMs = -1;
  private ScheduledFuture<?> resting;

  Session(Worker.Builder options) {
    this.options = options;
    this.executor = options.executor;
    this.places = new Semaphore(options.maxParallel, true);
    for (Tool tool : options.tools.values()) {
      int most = tool.maxParallel() == 0 ? options.maxParallel : Math.min(tool.maxParallel(), options.maxParallel);
      tools.put(tool.name(), new Served(tool, new Semaphore(most, true)));
    }
    loop.setRemoveOnCancelPolicy(true);
  }

  static ThreadFactory daemons(String name) {
    return work -> {
      Thread thread = new Thread(work, name);
      thread.setDaemon(true);
      return thread;
    };
  }

  // From any thread.

  void start() {
    started = true;
    execute(this::step);
  }

  boolean started() {
    return started;
  }

  CompletableFuture<Void> over() {
    return over;
  }

  int largest() {
    return largest;
  }

  Semaphore places() {
    return places;
  }

  void leave() {
    execute(() -> {
      if (!leaving) {
        LOG.log(System.Logger.Level.INFO,
            "the worker " + options.name + " takes no more calls and leaves; " + calls.size() + " are open");
      }
      leaving = true;
      if (stream != null) {
        stream.pump();
      } else if (resting != null && resting.cancel(false)) {
        step();
      }
    });
  }

  void moved(Invocation call, InvocationProgress report) {
    execute(() -> {
      if (isOpen(call)) {
        call.progress = report;
        if (stream != null) {
          stream.move(call);
        }
      }
    });
  }

  void finished(Invocation call, InvocationResult result) {
    execute(() -> {
      if (isOpen(call)) {
        call.result = result;
        call.progress = null;
        if (stream != null) {
          stream.add(call);
        }
      }
    });
  }

  void execute(Runnable task) {
    try {
      loop.execute(task);
    } catch (RejectedExecutionException itIsOver) {
      return; // Nobody is left to hear of it.
    }
  }

  ScheduledFuture<?> schedule(Runnable task, long ms) {
    return loop.schedule(task, ms, TimeUnit.MILLISECONDS);
  }

  // On the loop.

  long nowMs() {
    return TimeUnit.NANOSECONDS.toMillis(System.nanoTime());
  }

  boolean leaving() {
    return leaving;
  }

  Collection<Invocation> calls() {
    return calls.values();
  }

  private boolean isOpen(Invocation call) {
    return calls.get(call.invoke.getInvocation()) == call && call.result == null;
  }

  /** Between two streams: opens the next one, unless the worker has left. */
  private void step() {
    resting = null;
    if (leaving && token.isEmpty()) {
      finish(null);
    } else if (leaving && brokenAtMs >= 0 && nowMs() - brokenAtMs > graceMs) {
      int open = calls.size();
      giveUp("the server can't be reached");
      finish(open == 0 ? null : new IllegalStateException(
          "left with " + open + " calls that the server has no result of: it could not be reached"));
    } else {
      open();
    }
  }

  private void open() {
    ManagedChannel channel = null;
    try {
      channel = options.channels.get();
      stream = new Stream(this, channel, options.token.get(), register());
    } catch (RuntimeException misused) { // The channel or the token could not be made.
      if (channel != null) {
        channel.shutdownNow();
      }
      giveUp("the worker can't connect");
      finish(misused);
    }
  }

  private RegisterWorker register() {
    unanswered = true;
    RegisterWorker.Builder register = RegisterWorker.newBuilder()
        .setPool(options.pool)
        .setWorker(options.name)
        .setSession(token)
        .setMaxParallel(options.maxParallel)
        .addAllInvocations(calls.keySet())
        .setDraining(leaving);
    options.tools.values().forEach(tool -> register.addTools(tool.registered()));
    return register.build();
  }

  /** Takes the answer to register: the session goes on, or a new one begins. */
  void welcomed(WorkerWelcome welcome) {
    if (!welcome.getResumed()) {
      giveUp("the server has given the worker up");
    }
    LOG.log(System.Logger.Level.INFO, "the worker " + options.name
        + (welcome.getResumed() ? " is back in pool " : " serves pool ") + options.pool);
    unanswered = false;
    token = welcome.getSession();
    graceMs = Times.millis(welcome.getResumeGrace());
    largest = (int) Math.min(welcome.getMaxResultBytes(), Integer.MAX_VALUE);
  }

  /** Does what the server says. */
  void take(ConnectResponse message) {
    switch (message.getMessageCase()) {
      case INVOKE -> {
        if (!calls.containsKey(message.getInvoke().getInvocation())) {
          begin(new Invocation(this, message.getInvoke(), tools.get(message.getInvoke().getTool())));
        }
      }
      case CANCEL -> {
        Invocation call = calls.get(message.getCancel().getInvocation());
        if (call != null) {
          call.stop(Invocation.words(message.getCancel().getReason()));
        }
      }
      case ACKNOWLEDGED -> calls.remove(message.getAcknowledged().getInvocation());
      default -> { } // A heartbeat, or what this version does not know.
    }
  }

  private void begin(Invocation call) {
    calls.put(call.invoke.getInvocation(), call);
    ScheduledFuture<?> deadline = schedule(call::timeOver, call.timeoutMs());
    executor.execute(() -> {
      try {
        call.run();
      } finally {
        deadline.cancel(false);
      }
    });
  }

  /** A stream has ended. */
  void ended(Stream ended, Ending ending) {
    stream = null;
    if (ended.welcomed()) {
      waitMs = FIRST_WAIT_MS;
      brokenAtMs = nowMs();
    }
    if (ended.closed()) {
      token = "";
      if (leaving) {
        finish(null);
      } else {
        rest(jittered()); // The server was leaving; its other workers come back as well.
      }
      return;
    }
    if (ending.refused() != null && !(ending.taken() && lateRegister())) {
      giveUp("the server refuses the worker");
      finish(ending.refused());
      return;
    }
    long pause = Math.max(jittered(), ending.notBeforeMs());
    waitMs = Math.min(2 * waitMs, LONGEST_WAIT_MS);
    LOG.log(System.Logger.Level.WARNING,
        "the stream of the worker broke; again in " + pause + " ms: " + ending.why());
    rest(pause);
  }

  private void rest(long pause) {
    resting = schedule(this::step, pause);
  }

  private long jittered() {
    return ThreadLocalRandom.current().nextLong(waitMs);
  }

  /** True if a stream of this worker may have resumed the session late; it can have done so once. */
  private boolean lateRegister() {
    boolean late = unanswered;
    unanswered = false;
    return late;
  }

  /** Stops what runs, and drops what is finished. */
  private void giveUp(String why) {
    calls.values().forEach(call -> call.stop(why));
    calls.clear();
  }

  private void finish(Throwable error) {
    loop.shutdownNow();
    if (error == null) {
      over.complete(null);
    } else {
      over.completeExceptionally(error);
    }
  }
}
