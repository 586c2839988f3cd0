import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { makeFixedClock } from "@muster/testkit";
import fc from "fast-check";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { type LogRequest, openContainerLog, readContainerLog } from "./container-log.ts";

let directory: string;
let path: string;
const clock = makeFixedClock();

beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), "muster-log-"));
  path = join(directory, "pods", "0.log");
});

afterEach(() => {
  rmSync(directory, { recursive: true });
});

describe("a container's log", () => {
  it("joins lines that arrive in pieces, and keeps the last one without a newline", async () => {
    const log = openContainerLog(path, clock);
    log.append("stdout", Buffer.from("a"));
    log.append("stderr", Buffer.from("error\n"));
    log.append("stdout", Buffer.from("b\nc"));
    expect(await read(log)).toBe("error\nab\n");
    log.close();
    expect(await read(log)).toBe("error\nab\nc\n");
    expect(await read(path)).toBe("error\nab\nc\n");
  });

  it("answers tailLines, sinceTime, timestamps and limitBytes as kubectl users expect", async () => {
    const log = openContainerLog(path, clock);
    const startMs = clock.now();
    for (const text of ["one\n", "two\n", "three\n"]) {
      log.append("stdout", Buffer.from(text));
      clock.advance(1000);
    }
    expect(await read(log, { tailLines: 2 })).toBe("two\nthree\n");
    expect(await read(log, { tailLines: 0 })).toBe("");
    expect(await read(log, { sinceMs: startMs + 2000 })).toBe("three\n");
    expect(await read(log, { limitBytes: 5 })).toBe("one\nt");
    const time = new Date(startMs).toISOString().replace("Z", "000000Z");
    expect((await read(log, { timestamps: true })).split("\n")[0]).toBe(`${time} one`);
    log.close();
  });

  it("counts and stamps a line of more than 16 KiB once", async () => {
    const log = openContainerLog(path, clock);
    const long = "x".repeat(40_000);
    log.append("stdout", Buffer.from(`before\n${long}\nafter\n`));
    log.close();
    expect(await read(log)).toBe(`before\n${long}\nafter\n`);
    expect(await read(log, { tailLines: 2 })).toBe(`${long}\nafter\n`);
    const stamped = await read(log, { timestamps: true });
    expect(stamped.split("\n").map((line) => line.length)).toEqual([31 + 6, 31 + 40_000, 31 + 5, 0]);
  });

  it("keeps two files at most and follows across the change of files", async () => {
    const log = openContainerLog(path, { now: clock.now, fileBytes: 1000 });
    const following = read(log, { follow: true });
    const lines = Array.from({ length: 100 }, (_, index) => `line ${index}`);
    for (const line of lines) {
      log.append("stdout", Buffer.from(`${line}\n`));
      await new Promise(setImmediate);
    }
    log.close();
    expect((await following).trim().split("\n")).toEqual(lines);
    const kept = (await read(log)).trim().split("\n");
    expect(kept.length).toBeLessThan(60);
    expect(kept).toEqual(lines.slice(-kept.length));
  });

  it("ends a follower immediately when the reader disconnects", async () => {
    const log = openContainerLog(path, clock);
    const gone = new AbortController();
    const reader = readContainerLog(log, { follow: true }, gone.signal);
    await reader.next();
    const next = reader.next();
    gone.abort();
    expect(await next).toEqual({ done: true, value: undefined });
    log.close();
  });

  it("returns the written output, in whatever pieces it arrived", async () => {
    const texts = fc.array(fc.string({ unit: fc.constantFrom("a", "\n", "ß", "日", " ") }), { maxLength: 20 });
    await fc.assert(
      fc.asyncProperty(texts, async (pieces) => {
        const log = openContainerLog(path, clock);
        const bytes = Buffer.from(pieces.join(""));
        for (let at = 0; at < bytes.length; at += 3) log.append("stdout", bytes.subarray(at, at + 3));
        log.close();
        const text = pieces.join("");
        expect(await read(log)).toBe(text === "" || text.endsWith("\n") ? text : `${text}\n`);
      }),
    );
  });
});

async function read(log: Parameters<typeof readContainerLog>[0], request: LogRequest = {}): Promise<string> {
  const parts: Buffer[] = [];
  for await (const part of readContainerLog(log, request, new AbortController().signal)) parts.push(part);
  return Buffer.concat(parts).toString();
}
