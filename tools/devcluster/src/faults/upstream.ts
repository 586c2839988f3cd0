import { Agent, type RequestOptions } from "node:https";
import type { KubeConfig } from "@kubernetes/client-node";
import { throwFault } from "@muster/faults";

/** The API server behind the proxy. */
export type Upstream = AsyncDisposable & {
  /** Returns the request options of a path, with the proxy's credentials. */
  options(path: string): RequestOptions;
};

/** Shorter than the idle timeout of servers, so that no request uses a connection that is being closed. */
const IDLE_MS = 30_000;

/** Connections are reused; the credentials are read once. */
export async function connectUpstream(config: KubeConfig): Promise<Upstream> {
  const cluster = config.getCurrentCluster();
  if (cluster === null) {
    return throwFault({ code: "invalid_request", field: "kubeconfig", reason: "names no current cluster" });
  }
  const url = new URL(cluster.server);
  const own: RequestOptions = {};
  await config.applyToHTTPSOptions(own);
  const { ca, cert, key, rejectUnauthorized, headers } = own;
  const tls = {
    ...(ca === undefined ? {} : { ca }),
    ...(cert === undefined ? {} : { cert }),
    ...(key === undefined ? {} : { key }),
    ...(rejectUnauthorized === undefined ? {} : { rejectUnauthorized }),
  };
  const agent = new Agent({ keepAlive: true, timeout: IDLE_MS, ...tls });
  const credentials = Object.fromEntries(
    Object.entries(headers ?? {}).map(([name, value]) => [name.toLowerCase(), String(value)]),
  );
  return {
    options: (path) => ({
      host: url.hostname,
      port: url.port === "" ? 443 : Number(url.port),
      path: url.pathname.replace(/\/$/, "") + path,
      agent,
      headers: credentials,
    }),
    [Symbol.asyncDispose]: () => {
      agent.destroy();
      return Promise.resolve();
    },
  };
}
