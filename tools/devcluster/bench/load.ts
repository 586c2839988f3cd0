import { Agent, request as httpsRequest } from "node:https";
import type { IncomingMessage } from "node:http";

/** One of the two servers that are compared. */
export type Server = { readonly url: string; readonly ca: string; readonly token: string };

export type Call = { readonly method: string; readonly path: string; readonly body?: string; readonly type?: string };

export type Connection = Disposable & {
  /** Resolves with the size of the answer's body. Rejects for anything but success. */
  call(call: Call): Promise<number>;
  open(path: string): Promise<IncomingMessage>;
};

/** Keeps its connections, as clients do. */
export function connectTo({ url, ca, token }: Server): Connection {
  const agent = new Agent({ keepAlive: true, ca });
  const start = ({ method, path, body, type = "application/json" }: Call): Promise<IncomingMessage> =>
    new Promise((resolve, reject) => {
      const headers = {
        authorization: `Bearer ${token}`,
        ...(body === undefined ? {} : { "content-type": type, "content-length": Buffer.byteLength(body) }),
      };
      const request = httpsRequest(url + path, { method, agent, headers }, resolve);
      request.once("error", reject);
      request.end(body);
    });
  return {
    call: async (call) => {
      const response = await start(call);
      let size = 0;
      for await (const chunk of response as AsyncIterable<Buffer>) size += chunk.length;
      const { statusCode = 0 } = response;
      if (statusCode >= 300) throw new Error(`${call.method} ${call.path} was answered with ${statusCode}`);
      return size;
    },
    open: (path) => start({ method: "GET", path }),
    [Symbol.dispose]: () => agent.destroy(),
  };
}

/** Makes `count` calls with so many in flight; returns calls per second. */
export async function rateOf(
  count: number,
  inFlight: number,
  call: (index: number) => Promise<unknown>,
): Promise<number> {
  let next = 0;
  const lane = async (): Promise<void> => {
    while (next < count) await call(next++);
  };
  const startMs = performance.now();
  await Promise.all(Array.from({ length: inFlight }, lane));
  return (count * 1000) / (performance.now() - startMs);
}

export function middle(values: readonly number[]): number {
  return values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)] ?? 0;
}
