import { connect } from "@nats-io/transport-node";
import { runWhileLeader } from "../src/index.ts";

/** Competes for a lock and reports to its parent, until killed. Arguments: url, token, holder, time to live of the lock. */
const [url = "", token = "", holder = "", ttlMs = ""] = process.argv.slice(2);
const connection = await connect({ servers: url, token, maxReconnectAttempts: -1, reconnectTimeWait: 20 });
const { signal } = new AbortController();
await runWhileLeader(
  connection,
  {
    lock: "process",
    holder,
    ttlMs: Number(ttlMs),
    signal,
    onChange: (state) => process.send?.({ state }),
  },
  async (leadership) => {
    process.send?.({ token: leadership.token });
    await new Promise((resolve) => {
      leadership.signal.addEventListener("abort", resolve);
    });
  },
);
