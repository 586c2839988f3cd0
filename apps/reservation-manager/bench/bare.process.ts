import { connectNats } from "@muster/bus";

/** Answers requests with the client library alone, to measure the cost of a request and its reply without a ledger. */
const { BENCH_NATS_URL: url = "", BENCH_NATS_TOKEN: token = "", BENCH_REPLY_BYTES: bytes = "0" } = process.env;
const { connection } = await connectNats({ url, token, name: "bare" });
const reply = new Uint8Array(Number(bytes));
connection.subscribe("bench.bare", {
  callback: (_error, message) => {
    message.respond(reply);
  },
});
await connection.flush();
console.log("ready");

// Ends with the parent process, even if the parent crashed.
process.stdin.resume().once("close", () => process.kill(process.pid, "SIGTERM"));
