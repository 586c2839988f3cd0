import { request as httpsRequest } from "node:https";
import type { Exchange } from "./answer.ts";
import { answerFailure } from "./answer.ts";
import { type JsonObject, listAt, numberAt, textAt } from "./json.ts";
import { addressOf } from "./kinds/node.ts";
import { badRequest, fail, type Failure, internalError } from "./status.ts";

/** How the server shows itself to kubelets, and which ones it believes. */
export type KubeletAccess = {
  /** Bearer token that the kubelet asks for. */
  readonly token: string;
  /** PEM of the authority that signs kubelets' certificates. */
  readonly ca: string;
};

const PARAMETERS = [
  "follow",
  "previous",
  "sinceSeconds",
  "sinceTime",
  "timestamps",
  "tailLines",
  "limitBytes",
  "stream",
];
const CONNECT_TIMEOUT_MS = 5_000;
/** Of a kubelet's refusal, so much is passed on. */
const REFUSAL_LIMIT_BYTES = 4_096;

/** The container that is meant. Fails with 400 when the pod has several and none is named, or not the named one. */
export function chooseContainer(pod: JsonObject, name: string, wanted: string): string {
  const namesOf = (list: string): string[] => listAt(pod, "spec", list).map((container) => textAt(container, "name"));
  const containers = namesOf("containers");
  if (wanted !== "") {
    if ([...containers, ...namesOf("initContainers"), ...namesOf("ephemeralContainers")].includes(wanted))
      return wanted;
    return fail(badRequest(`container ${wanted} is not valid for pod ${name}`));
  }
  const byDefault = textAt(pod, "metadata", "annotations", "kubectl.kubernetes.io/default-container");
  const [only = "", ...others] = containers;
  if (others.length === 0) return only;
  if (containers.includes(byDefault)) return byDefault;
  return fail(
    badRequest(`a container name must be specified for pod ${name}, choose one of: [${containers.join(" ")}]`),
  );
}

export type LogSource = { readonly host: string; readonly port: number; readonly path: string };

/** Where the log is read. Fails when the node does not say how its kubelet is reached. */
export function locateLog(pod: JsonObject, node: JsonObject, container: string, query: URLSearchParams): LogSource {
  const host = addressOf(node, "InternalIP");
  const port = numberAt(node, "status", "daemonEndpoints", "kubeletEndpoint", "Port") ?? 0;
  if (host === "" || port === 0)
    fail(internalError(`no kubelet address known for node "${textAt(node, "metadata", "name")}"`));
  const passed = new URLSearchParams([...query].filter(([key]) => PARAMETERS.includes(key)));
  const place = [textAt(pod, "metadata", "namespace"), textAt(pod, "metadata", "name"), container].map(
    encodeURIComponent,
  );
  const suffix = passed.size === 0 ? "" : `?${passed.toString()}`;
  return { host, port, path: `/containerLogs/${place.join("/")}${suffix}` };
}

/** Passes the kubelet's answer on as it comes; whichever side ends, the other is ended too. */
export function streamLog(exchange: Exchange, source: LogSource, access: KubeletAccess): void {
  const { response } = exchange;
  const upstream = httpsRequest({
    host: source.host,
    port: source.port,
    path: source.path,
    ca: access.ca,
    // The authority signs kubelets of this cluster only; which address one listens on is in its node object, not in its certificate.
    checkServerIdentity: () => undefined,
    headers: { authorization: `Bearer ${access.token}` },
    agent: false,
  });
  const connecting = setTimeout(() => upstream.destroy(new Error("connecting timed out")), CONNECT_TIMEOUT_MS);
  response.once("close", () => upstream.destroy());
  upstream.once("error", (error) => {
    clearTimeout(connecting);
    if (response.headersSent) {
      response.destroy();
      return;
    }
    const address = `https://${source.host}:${source.port}${source.path}`;
    answerFailure(exchange, internalError(`Get "${address}": ${error.message}`));
  });
  upstream.once("response", (incoming) => {
    clearTimeout(connecting);
    const code = incoming.statusCode ?? 500;
    if (code >= 200 && code <= 206) {
      response.writeHead(200, { "content-type": "text/plain" });
      response.flushHeaders();
      incoming.on("error", () => response.destroy());
      incoming.pipe(response);
      return;
    }
    let refusal = "";
    incoming.setEncoding("utf8");
    incoming.on("data", (chunk: string) => {
      refusal = (refusal + chunk).slice(0, REFUSAL_LIMIT_BYTES);
    });
    incoming.on("end", () => answerFailure(exchange, refusalOf(code, refusal)));
  });
  upstream.end();
}

/** The kubelet's words, in the form of the API. */
export function refusalOf(code: number, text: string): Failure {
  const message = text.trim();
  if (code === 400) return badRequest(message);
  if (code === 500) return internalError(message);
  const reason = code === 404 ? "NotFound" : code === 401 ? "Unauthorized" : code === 403 ? "Forbidden" : "";
  return { code, reason, message: message === "" ? `the kubelet answered ${code}` : message };
}
