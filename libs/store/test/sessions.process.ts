import { connect } from "@nats-io/transport-node";
import { withSessions } from "../src/index.ts";
import { takeFree, type SessionEvent } from "./take-free.ts";

/**
 * Keeps sessions until killed, and takes every listed lock as soon as it is free. Also executes `lock KEY` and `unlock KEY` from its parent, without checking
 * its session. Arguments: url, token, bucket, holder, time to live, keys separated by commas.
 */
const [url = "", token = "", bucket = "", holder = "", ttlMs = "", keys = ""] = process.argv.slice(2);
const connection = await connect({ servers: url, token, maxReconnectAttempts: -1, reconnectTimeWait: 20 });
const { signal } = new AbortController();
const report = (event: SessionEvent): void => void process.send?.(event);
let obey: (text: string) => Promise<void> = () => Promise.resolve();
process.on("message", (text) => void obey(String(text)));

await withSessions(
  connection,
  { bucket, holder, ttlMs: Number(ttlMs), about: { holder }, signal, onChange: (state) => report({ state }) },
  async (session) => {
    const has = await takeFree(session, keys.split(","), report);
    obey = async (text) => {
      const [verb, key = ""] = text.split(" ");
      const lock = verb === "lock" ? await session.lock(key) : has.get(key);
      if (verb === "unlock" && lock !== undefined) await session.unlock(lock);
      report({ answerTo: text, result: lock === undefined ? "refused" : "done", isHeld: session.isHeld() });
    };
    report({ session: session.id });
    await new Promise((resolve) => {
      session.signal.addEventListener("abort", resolve);
    });
  },
);
