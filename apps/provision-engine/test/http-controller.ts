import type { Order } from "@muster/leases";
import { once } from "node:events";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";

type Listed = { readonly at: bigint; readonly entry: object | string };

/** The feedback that a controller has accepted, in order. */
export type Received = { readonly path: string; readonly body: Readonly<Record<string, unknown>> };

/** A server of orders. It keeps the feedback, and answers as a test sets it. */
export type HttpController = AsyncDisposable & {
  readonly url: string;
  readonly received: Received[];
  /** Paths with their queries, of all requests. */
  readonly asked: string[];
  /** Lists an entry under the next id. */
  list(entry: object | string): void;
  /** Answers each request instead of the controller if it returns true. */
  answerBy(answer: (request: IncomingMessage, response: ServerResponse, url: URL) => boolean): void;
};

export async function startHttpController(): Promise<HttpController> {
  const listed: Listed[] = [];
  const received: Received[] = [];
  const asked: string[] = [];
  let instead: Parameters<HttpController["answerBy"]>[0] = () => false;
  const answer = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const url = new URL(request.url ?? "", "http://controller");
    asked.push(url.pathname + url.search);
    if (instead(request, response, url)) return;
    if (request.method === "GET") {
      const from = BigInt(url.searchParams.get("from") ?? 0);
      const page = listed.filter(({ at }) => at >= from).slice(0, Number(url.searchParams.get("limit")));
      const lastId = page.at(-1)?.at ?? listed.at(-1)?.at ?? 0n;
      response.setHeader("x-last-id", String(lastId));
      response.end(JSON.stringify({ orders: page.map(({ entry }) => entry) }));
      return;
    }
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk as Buffer);
    received.push({ path: url.pathname, body: JSON.parse(Buffer.concat(chunks).toString()) as Received["body"] });
    response.writeHead(204).end();
  };
  const server = createServer((request, response) => void answer(request, response));
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}`,
    received,
    asked,
    list: (entry) => void listed.push({ at: BigInt(listed.length + 1), entry }),
    answerBy: (by) => (instead = by),
    [Symbol.asyncDispose]: async () => {
      server.closeAllConnections();
      server.close();
      await once(server, "close");
    },
  };
}

/** An order as a controller lists it. */
export function toJsonOrder(order: Order, changes: object = {}): object {
  const { id, engine, user, type, data, createdNs, durationNs, version, signature } = order;
  const ms = createdNs / 1_000_000n;
  return {
    id,
    engine,
    user,
    type,
    data,
    created: new Date(Number(ms)).toISOString(),
    duration: String(durationNs),
    version,
    signature: Buffer.from(signature).toString("base64"),
    ...changes,
  };
}
