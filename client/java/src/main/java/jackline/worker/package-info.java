/**
 * Serves tools to the runs of a Jackline server, from a process of yours and over a connection that your process opens.
 *
 * <pre>{@code
 * Worker worker = Worker.builder(
 *         () -> Grpc.newChannelBuilder("jackline.example:443", TlsChannelCredentials.create()).build())
 *     .token(() -> System.getenv("JACKLINE_TOKEN"))
 *     .pool("support")
 *     .tool(Tool.builder("seats_left", "How many seats a flight has left.")
 *         .parameters("{\"type\": \"object\", \"properties\": {\"flight\": {\"type\": \"string\"}}}")
 *         .effect(Tool.Effect.READ)
 *         .cancellable(true)
 *         .handler(call -> Result.json(seatsLeft(call.arguments())))
 *         .build())
 *     .build();
 * worker.drainOnShutdown();
 * worker.run();
 * }</pre>
 *
 * <p>A worker keeps its connection up: it answers heartbeats, comes back after a break with the same session, and
 * delivers a result that was finished meanwhile, once. The pool has to be named in the server's config, and the token
 * needs the scope {@code tools:serve}. The rules that it follows stand in proto/jackline/v1/tool_worker.proto.
 */
package jackline.worker;
