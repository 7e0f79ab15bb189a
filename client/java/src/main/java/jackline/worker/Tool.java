package jackline.worker;

import com.google.protobuf.ByteString;
import jackline.v1.WorkerTool;
import java.util.Objects;

/** A tool that a worker serves. Immutable. */
public final class Tool {
  /** What running a tool may change, and so whether a call whose answer was lost may be made again. */
  public enum Effect {
    /** Changes nothing. */
    READ(jackline.v1.Effect.EFFECT_READ),
    /** May be repeated with the same {@link Call#callKey}, and counts once. */
    IDEMPOTENT(jackline.v1.Effect.EFFECT_IDEMPOTENT),
    /** Changes something each time it runs: never repeated where it may have begun. */
    WRITE(jackline.v1.Effect.EFFECT_WRITE);

    private final jackline.v1.Effect effect;

    Effect(jackline.v1.Effect effect) {
      this.effect = effect;
    }
  }

  /** Runs a tool. Called on many threads at a time. */
  @FunctionalInterface
  public interface Handler {
    /**
     * Runs it once. The thread is interrupted when nobody waits for the call any more or its time is over, if the tool is
     * cancellable; that of another is never interrupted: such a tool runs to its end.
     *
     * @throws ToolException to say that it failed, and how
     * @throws Exception anything else counts as {@link ToolException#uncertain}, and only its class is sent: the rest is
     *     logged
     */
    Result handle(Call call) throws Exception;
  }

  private final String name;
  private final String description;
  private final String parameters;
  private final String output;
  private final Effect effect;
  private final int maxParallel;
  private final boolean cancellable;
  private final Handler handler;

  private Tool(Builder builder) {
    name = builder.name;
    description = builder.description;
    parameters = Objects.requireNonNull(builder.parameters, "parameters: the JSON Schema of the arguments");
    output = builder.output;
    effect = builder.effect;
    maxParallel = builder.maxParallel;
    cancellable = builder.cancellable;
    handler = Objects.requireNonNull(builder.handler, "handler");
  }

  /**
   * Begins a tool.
   *
   * @param name its name in the pool: a letter, then letters, digits, {@code _}, {@code -} or {@code .}, 64 at most
   * @param description what it does, in words for a model
   */
  public static Builder builder(String name, String description) {
    return new Builder(name, description);
  }

  String name() {
    return name;
  }

  int maxParallel() {
    return maxParallel;
  }

  boolean cancellable() {
    return cancellable;
  }

  Handler handler() {
    return handler;
  }

  WorkerTool registered() {
    WorkerTool.Builder tool = WorkerTool.newBuilder()
        .setName(name)
        .setDescription(description)
        .setParametersJson(ByteString.copyFromUtf8(parameters))
        .setOutputSchemaJson(ByteString.copyFromUtf8(output))
        .setEffect(effect.effect)
        .setCancellable(cancellable);
    return (maxParallel == 0 ? tool : tool.setMaxParallel(maxParallel)).build();
  }

  /** Makes a tool. Parameters and handler are required. */
  public static final class Builder {
    private final String name;
    private final String description;
    private String parameters;
    private String output = "";
    private Effect effect = Effect.WRITE;
    private int maxParallel;
    private boolean cancellable;
    private Handler handler;

    private Builder(String name, String description) {
      this.name = Objects.requireNonNull(name, "name");
      this.description = Objects.requireNonNull(description, "description");
    }

    /** The JSON Schema of its arguments, of type {@code object}. */
    public Builder parameters(String schema) {
      this.parameters = schema;
      return this;
    }

    /** The JSON Schema of what it returns: a result that does not fit is a failure. Left out: anything. */
    public Builder output(String schema) {
      this.output = Objects.requireNonNull(schema, "schema");
      return this;
    }

    /** What running it may change. Left out: {@link Effect#WRITE}. */
    public Builder effect(Effect effect) {
      this.effect = Objects.requireNonNull(effect, "effect");
      return this;
    }

    /** How many calls of it run at a time. Left out: as many as the worker serves. */
    public Builder maxParallel(int most) {
      this.maxParallel = Worker.atLeastOne("maxParallel of tool " + name, most);
      return this;
    }

    /** It ends soon after its thread is interrupted. Its thread is never interrupted otherwise. */
    public Builder cancellable(boolean cancellable) {
      this.cancellable = cancellable;
      return this;
    }

    /** What runs it. */
    public Builder handler(Handler handler) {
      this.handler = handler;
      return this;
    }

    /** The tool. */
    public Tool build() {
      return new Tool(this);
    }
  }
}
