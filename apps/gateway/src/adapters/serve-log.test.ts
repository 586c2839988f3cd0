import { expect, it } from "vitest";
import { serveLog } from "./serve-log.ts";

it("writes nothing that it reads after the right was withdrawn", async () => {
  const written: string[] = [];
  const gone = new AbortController();
  const stream = {
    closed: gone.signal,
    write: (piece: string | Uint8Array) => Promise.resolve(void written.push(Buffer.from(piece).toString())),
    end: () => written.push("the end"),
    break: () => gone.abort(),
  };
  let mayRead = true;
  const pieceOf = (text: string) => ({ chunk: Buffer.from(text), nextOffset: text.length, complete: false });
  const reader = {
    next: () => {
      mayRead = false;
      return Promise.resolve(pieceOf("second"));
    },
  };
  await serveLog(stream, reader, { first: pieceOf("first"), follow: true, mayRead: () => Promise.resolve(mayRead) });
  expect(written).toEqual(["first"]);
  expect(gone.signal.aborted).toBe(true);
});
