package jackline.worker;

import io.grpc.ManagedChannel;
import java.net.InetAddress;
import java.net.UnknownHostException;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Objects;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Executor;
import java.util.concurrent.Executors;
import java.util.function.Supplier;

/** A worker: run it once. Its methods may be called from any thread. */
public final class Worker {
  private static final int PARALLEL = 8;

  private final Session session;

  private Worker(Builder builder) {
    this.session = new Session(builder);
  }

  /**
   * Begins a worker.
   *
   * @param channels makes a channel to the server, with transport credentials. It is asked anew for each stream, and the
   *     worker shuts down what it gets.
   */
  public static Builder builder(Supplier<ManagedChannel> channels) {
    return new Builder(Objects.requireNonNull(channels, "channels"));
  }

  /**
   * Serves until the worker has drained: it connects again by itself, for as long as that may help. Handlers of tools that
   * are not cancellable may still run when this throws.
   *
   * @throws WorkerRefusedException when the server refuses the worker
   * @throws IllegalStateException when results could not be delivered before the server had given the worker up
   * @throws InterruptedException when this thread is interrupted; the worker then drains all the same
   */
  public void run() throws WorkerRefusedException, InterruptedException {
    session.start();
    try {
      session.over().get();
    } catch (InterruptedException interrupted) {
      drain();
      throw interrupted;
    } catch (ExecutionException ended) {
      if (ended.getCause() instanceof WorkerRefusedException refused) {
        throw refused;
      }
      throw new IllegalStateException(ended.getCause().getMessage(), ended.getCause());
    }
  }

  /** Takes no further calls and finishes those in flight; {@link #run} ends when the server has every result. */
  public void drain() {
    session.leave();
  }

  /**
   * Drains when the JVM shuts down, by SIGTERM or otherwise, which waits for it. The JVM's exit code is the one that it has
   * for the signal.
   */
  public void drainOnShutdown() {
    Runtime.getRuntime().addShutdownHook(new Thread(() -> {
      drain();
      CompletableFuture<Void> over = session.over();
      if (session.started()) {
        over.handle((nothing, error) -> null).join();
      }
    }, "jackline-worker-drain"));
  }

  static int atLeastOne(String place, int value) {
    if (value < 1) {
      throw new IllegalArgumentException(place + " is " + value + ": it has to be at least 1");
    }
    return value;
  }

  /** Makes a worker. Pool, token and one tool are required. */
  public static final class Builder {
    final Supplier<ManagedChannel> channels;
    final Map<String, Tool> tools = new LinkedHashMap<>();
    Supplier<String> token;
    String pool;
    String name;
    int maxParallel = PARALLEL;
    Executor executor;

    private Builder(Supplier<ManagedChannel> channels) {
      this.channels = channels;
    }

    /** The token, with the scope {@code tools:serve}; asked for anew for each stream. */
    public Builder token(Supplier<String> token) {
      this.token = Objects.requireNonNull(token, "token");
      return this;
    }

    /** The pool of the operator's config. */
    public Builder pool(String pool) {
      this.pool = Objects.requireNonNull(pool, "pool");
      return this;
    }

    /** What people know the worker by; it need not be unique. Left out: the host and the process. */
    public Builder name(String name) {
      this.name = Objects.requireNonNull(name, "name");
      return this;
    }

    /** Adds a tool. */
    public Builder tool(Tool tool) {
      if (tools.putIfAbsent(tool.name(), tool) != null) {
        throw new IllegalArgumentException("another tool has the name " + tool.name());
      }
      return this;
    }

    /** How many calls run at a time, of all tools together. Left out: 8. */
    public Builder maxParallel(int most) {
      this.maxParallel = atLeastOne("maxParallel", most);
      return this;
    }

    /** What runs the handlers, each on a thread of its own. Left out: daemon threads that are kept for a minute. */
    public Builder executor(Executor executor) {
      this.executor = Objects.requireNonNull(executor, "executor");
      return this;
    }

    /** The worker. Nothing is opened yet. */
    public Worker build() {
      Objects.requireNonNull(token, "token");
      Objects.requireNonNull(pool, "pool: name the pool of the server's config");
      if (tools.isEmpty()) {
        throw new IllegalArgumentException("a worker serves at least one tool");
      }
      if (name == null) {
        name = host() + ":" + ProcessHandle.current().pid();
      }
      if (executor == null) {
        executor = Executors.newCachedThreadPool(Session.daemons("jackline-tool"));
      }
      return new Worker(this);
    }

    private static String host() {
      try {
        return InetAddress.getLocalHost().getHostName();
      } catch (UnknownHostException nameless) {
        return "java";
      }
    }
  }
}
