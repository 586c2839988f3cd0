import { once } from "node:events";
import { readFile, mkdtemp, rm, writeFile } from "node:fs/promises";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { request } from "node:https";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { buffer } from "node:stream/consumers";
import { KubeConfig } from "@kubernetes/client-node";

/** A proxy of an API server that holds the creation or the confirmation of a pod until the test releases it. */
export type SlowApi = AsyncDisposable & {
  readonly kubeconfig: string;
  /**
   * Holds the next request that creates (POST) or confirms (PATCH) this pod. `arrived` resolves when the request is held; `release` forwards it, even if the
   * client no longer waits for the answer.
   */
  hold(pod: string, method?: "POST" | "PATCH"): { readonly arrived: Promise<void>; release(): Promise<number> };
};

type Hold = {
  readonly arrived: () => void;
  readonly release: Promise<void>;
  readonly answered: (status: number) => void;
};

export async function slowApi(kubeconfig: string): Promise<SlowApi> {
  const config = new KubeConfig();
  config.loadFromFile(kubeconfig);
  const cluster = config.getCurrentCluster();
  if (cluster === null) throw new Error("the kubeconfig names no cluster");
  const upstream = new URL(cluster.server);
  const ca = Buffer.from(cluster.caData ?? "", "base64");
  const holds = new Map<string, Hold>();

  const pass = (from: IncomingMessage, body: Buffer, to: ServerResponse): Promise<number> =>
    new Promise((resolve, reject) => {
      const { host: _, ...headers } = from.headers;
      const { hostname, port } = upstream;
      const out = request({ hostname, port, path: from.url, method: from.method, headers, ca }, (answer) => {
        to.writeHead(answer.statusCode ?? 500, answer.headers);
        answer.pipe(to);
        answer.once("end", () => {
          resolve(answer.statusCode ?? 500);
        });
      });
      out.once("error", reject);
      out.end(body);
    });

  const server = createServer((from, to) => {
    void (async () => {
      const body = await buffer(from);
      const [, name = ""] =
        (from.method === "POST" ? /"name":"([^"]+)"/ : /\/pods\/([^/?]+)$/).exec(
          from.method === "POST" ? body.toString() : (from.url ?? ""),
        ) ?? [];
      const key = `${from.method ?? ""} ${name}`;
      const hold = holds.get(key);
      holds.delete(key);
      hold?.arrived();
      await hold?.release;
      const status = await pass(from, body, to);
      hold?.answered(status);
    })().catch(() => {
      to.destroy();
    });
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const directory = await mkdtemp(join(tmpdir(), "muster-slow-api-"));
  const file = join(directory, "kubeconfig");
  const { port } = server.address() as AddressInfo;
  const text = await readFile(kubeconfig, "utf8");
  const rewritten = JSON.parse(text) as { clusters: { cluster: Record<string, unknown> }[] };
  for (const each of rewritten.clusters) {
    each.cluster = { server: `http://127.0.0.1:${port}`, "insecure-skip-tls-verify": true };
  }
  await writeFile(file, JSON.stringify(rewritten), { mode: 0o600 });
  return {
    kubeconfig: file,
    hold: (pod, method = "POST") => {
      const arrived = Promise.withResolvers<undefined>();
      const release = Promise.withResolvers<undefined>();
      const answered = Promise.withResolvers<number>();
      holds.set(`${method} ${pod}`, {
        arrived: () => {
          arrived.resolve(undefined);
        },
        release: release.promise,
        answered: answered.resolve,
      });
      return {
        arrived: arrived.promise,
        release: () => {
          release.resolve(undefined);
          return answered.promise;
        },
      };
    },
    [Symbol.asyncDispose]: async () => {
      server.closeAllConnections();
      server.close();
      await rm(directory, { recursive: true, force: true });
    },
  };
}
