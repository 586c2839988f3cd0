import {
  createConfiguration,
  ServerConfiguration,
  type Configuration,
  type KubeConfig,
  type RequestContext,
} from "@kubernetes/client-node";
import { throwFault } from "@muster/faults";

/** Connections are remade with new credentials this often, in case client certificates are renewed. */
const CONNECTIONS_KEPT_MS = 5 * 60_000;

/**
 * Returns one of client-node's APIs (`CoreV1Api`, ...) whose calls end after timeoutMs, or when the signal is aborted; client-node's own calls have no limit.
 * Calls share connections; client-node creates a new pool, and so a TLS handshake, for each.
 */
export function makeKubeClient<Api>(
  config: KubeConfig,
  api: new (configuration: Configuration) => Api,
  options: { readonly timeoutMs: number; readonly signal?: AbortSignal },
): Api {
  const cluster = config.getCurrentCluster();
  if (cluster === null) {
    return throwFault({ code: "invalid_request", field: "kubeconfig", reason: "names no current cluster" });
  }
  const share = shareConnections();
  const configuration = createConfiguration({
    baseServer: new ServerConfiguration(cluster.server, {}),
    authMethods: { default: config },
    promiseMiddleware: [
      {
        pre: (request) => {
          const deadline = AbortSignal.timeout(options.timeoutMs);
          request.setSignal(options.signal === undefined ? deadline : AbortSignal.any([options.signal, deadline]));
          share(request);
          return Promise.resolve(request);
        },
        post: (response) => Promise.resolve(response),
      },
    ],
  });
  return new api(configuration);
}

function shareConnections(): (request: RequestContext) => void {
  let shared: ReturnType<RequestContext["getDispatcher"]>;
  let sinceMs = 0;
  return (request) => {
    const nowMs = performance.now();
    if (shared === undefined || nowMs - sinceMs > CONNECTIONS_KEPT_MS) {
      shared = request.getDispatcher();
      sinceMs = nowMs;
    } else {
      request.setDispatcher(shared);
    }
  };
}
