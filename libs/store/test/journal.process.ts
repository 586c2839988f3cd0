import { connect } from "@nats-io/transport-node";
import { findFault } from "@muster/faults";
import { runWhileLeader } from "../src/index.ts";
import { note, openJournal } from "./journal.ts";

/**
 * Keeps a journal while it leads, and notes the texts of its parent. With `watchful` it checks its lead before it writes, as services do; with `blind` only the
 * fence stops it. Arguments: url, token, holder, time to live of the lock, name of lock and journal, watchful or blind.
 */
const [url = "", token = "", holder = "", ttlMs = "", name = "", mode = ""] = process.argv.slice(2);
const connection = await connect({ servers: url, token, maxReconnectAttempts: -1, reconnectTimeWait: 20 });
const { signal } = new AbortController();
const report = (said: object): unknown => process.send?.(said);

await runWhileLeader(
  connection,
  { lock: name, holder, ttlMs: Number(ttlMs), signal, onChange: (state) => report({ state }) },
  async (leadership) => {
    const { signal: lost, isHeld } = leadership;
    const journal = await openJournal(
      connection,
      name,
      leadership.token,
      mode === "watchful" ? { signal: lost, isHeld } : {},
    );
    process.on("message", (text) => {
      const timerHadRun = lost.aborted;
      journal.transact(note(`${holder} ${String(text)}`)).then(
        () => report({ wrote: text }),
        (error: unknown) => report({ refused: text, code: findFault(error)?.code, sawLoss: lost.aborted, timerHadRun }),
      );
    });
    report({ token: leadership.token });
    // Keeps its journal open after the lead is over, like a writer that does not stop.
    await new Promise(() => undefined);
  },
);
