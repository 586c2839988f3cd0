import { FaultError } from "@muster/faults";
import { describe, expect, it } from "vitest";
import type { AppendResult, LogStream } from "./log-stream.ts";
import { LogWriter } from "./log-writer.ts";

const AWAY = new FaultError({ code: "unavailable", dependency: "JetStream", retryAfterMs: 1 });

/** Creates a writer of texts whose stream answers every entry with this result. */
function writerOf(append: () => Promise<AppendResult>) {
  const unexpected = () => Promise.reject(new Error("unexpected call"));
  const stream: LogStream = {
    ensure: unexpected,
    lastToken: unexpected,
    fence: unexpected,
    read: () => expect.fail("unexpected call"),
    append,
    dropBefore: unexpected,
  };
  const events = {
    encode: (texts: readonly string[]) => new TextEncoder().encode(texts.join("\n")),
    decode: (bytes: Uint8Array) => new TextDecoder().decode(bytes).split("\n"),
  };
  const config = {
    stream: { name: "journal", subject: "journal" },
    events,
    snapshots: { bucket: "snapshots", key: "journal", codec: { encode: () => new Uint8Array(), decode: () => "" } },
    initial: "",
    evolve: (state: string, event: string) => state + event,
    token: 1,
  };
  const snapshots = { read: () => Promise.resolve(undefined), write: unexpected };
  const recovered = { state: "", sequence: 0 };
  return new LogWriter<string, string>({}, { config, stream, snapshots, recovered, snapshotAt: 0 });
}

describe("a deposed writer", () => {
  it("reports the defect that ended it, and rejects decisions with unavailable", async () => {
    const defect = new TypeError("a defect");
    const writer = writerOf(() => Promise.reject(defect));
    const decided = writer.transact(() => ({ events: ["a"], result: "done" }));
    await expect(decided).rejects.toMatchObject({ fault: { code: "unavailable", dependency: "log journal" } });
    expect(writer.deposed.reason).toBe(defect);
  });

  it("reports a fault if the entry could not be written", async () => {
    const writer = writerOf(() => Promise.resolve({ kind: "refused", error: AWAY }));
    const decided = writer.transact(() => ({ events: ["a"], result: "done" }));
    await expect(decided).rejects.toMatchObject({ cause: AWAY });
    expect(writer.deposed.reason).toMatchObject({
      fault: { code: "unavailable", dependency: "log journal" },
      cause: AWAY,
    });
  });
});
