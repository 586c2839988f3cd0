import { once } from "node:events";
import { findFault } from "@muster/faults";
import { expect, it } from "vitest";
import { openPodLog, readLogRange } from "../src/index.ts";
import { buildRefusal, startScriptedServer, type Answer } from "./scripted-server.ts";

const LOG = { namespace: "ns", pod: "train-worker-0", container: "main" };
const never = new AbortController().signal;

/** Sends these pieces, and nothing beyond the limit of the request. */
const pieces =
  (...texts: string[]): Answer =>
  async (response, request) => {
    const limit = Number(new URL(request.url ?? "/", "http://server").searchParams.get("limitBytes") ?? "1000000");
    response.writeHead(200);
    let sent = 0;
    for (const text of texts) {
      const part = text.slice(0, limit - sent);
      sent += part.length;
      if (part !== "" && !response.write(part)) await once(response, "drain");
    }
    response.end();
  };

it.each([
  [{ offset: 0, limitBytes: 100 }, "abcdefghi"],
  [{ offset: 0, limitBytes: 4 }, "abcd"],
  [{ offset: 4, limitBytes: 3 }, "efg"],
  [{ offset: 6, limitBytes: 100 }, "ghi"],
  [{ offset: 9, limitBytes: 100 }, ""],
  [{ offset: 50, limitBytes: 100 }, ""],
])("reads the range %o of a log that arrives in pieces", async (range, text) => {
  await using server = await startScriptedServer();
  server.onList(pieces("abc", "def", "ghi"));
  expect(Buffer.from(await readLogRange(server.config, LOG, range, never)).toString()).toBe(text);
  const [asked] = server.asked;
  expect(asked?.url.pathname).toBe("/api/v1/namespaces/ns/pods/train-worker-0/log");
  expect(Object.fromEntries(asked?.url.searchParams ?? [])).toEqual({
    container: "main",
    limitBytes: String(range.offset + range.limitBytes),
  });
});

it("returns at most the limit when the server exceeds it", async () => {
  await using server = await startScriptedServer();
  server.onList((response) => response.writeHead(200).end("abcdefghi"));
  const range = { offset: 2, limitBytes: 3 };
  expect(Buffer.from(await readLogRange(server.config, LOG, range, never)).toString()).toBe("cde");
});

it("rejects with a fault for a missing pod, and for a cut stream", async () => {
  await using server = await startScriptedServer();
  server.onList(buildRefusal(404, "NotFound"));
  const range = { offset: 0, limitBytes: 10 };
  const code = (work: Promise<unknown>): Promise<string | undefined> =>
    work.then(
      () => "ok",
      (error: unknown) => findFault(error)?.code,
    );
  expect(await code(readLogRange(server.config, LOG, range, never))).toBe("not_found");
  server.onList((response) => {
    response.writeHead(200);
    response.write("ab", () => response.destroy());
  });
  const read = async (): Promise<void> => {
    for await (const chunk of openPodLog(server.config, LOG, { follow: true }, never)) expect(chunk.length).toBe(2);
  };
  expect(await code(read())).toBe("unavailable");
});

it("rejects with unavailable when the server does not answer in time, and with cancelled when the reader stops", async () => {
  await using server = await startScriptedServer();
  server.onList(() => undefined);
  const range = { offset: 0, limitBytes: 10 };
  const read = (signal: AbortSignal): Promise<unknown> => readLogRange(server.config, LOG, range, signal);
  await expect(read(AbortSignal.timeout(50))).rejects.toMatchObject({ fault: { code: "unavailable" } });
  await expect(read(AbortSignal.abort())).rejects.toMatchObject({ fault: { code: "cancelled" } });
});
