import type { HttpExchange } from "./answer.ts";
import { answerFailure } from "./answer.ts";
import { type JsonObject, getList, getText } from "./json.ts";
import {
  type KubeletAddress,
  type KubeletClient,
  sendKubeletRequest,
  readRefusal,
  unreachable,
} from "./kubelet-request.ts";
import { parseBoolean } from "./query.ts";
import { badRequest, fail } from "./status.ts";

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
/** Chooses the container of a log. Fails with 400 if the pod has several and none is named, or lacks the named one. */
export function chooseContainer(pod: JsonObject, name: string, wanted: string): string {
  const namesOf = (list: string): string[] => getList(pod, "spec", list).map((container) => getText(container, "name"));
  const containers = namesOf("containers");
  if (wanted !== "") {
    if ([...containers, ...namesOf("initContainers"), ...namesOf("ephemeralContainers")].includes(wanted))
      return wanted;
    return fail(badRequest(`container ${wanted} is not valid for pod ${name}`));
  }
  const byDefault = getText(pod, "metadata", "annotations", "kubectl.kubernetes.io/default-container");
  const [only = "", ...others] = containers;
  if (others.length === 0) return only;
  if (containers.includes(byDefault)) return byDefault;
  return fail(
    badRequest(`a container name must be specified for pod ${name}, choose one of: [${containers.join(" ")}]`),
  );
}

/** Returns the kubelet path of a log. */
export function buildLogPath(pod: JsonObject, container: string, query: URLSearchParams): string {
  const passed = new URLSearchParams([...query].filter(([key]) => PARAMETERS.includes(key)));
  const place = [getText(pod, "metadata", "namespace"), getText(pod, "metadata", "name"), container].map(
    encodeURIComponent,
  );
  const suffix = passed.size === 0 ? "" : `?${passed.toString()}`;
  return `/containerLogs/${place.join("/")}${suffix}`;
}

/** Streams the kubelet's answer to the client; when one side ends, the other ends too. */
export function streamLog(exchange: HttpExchange, address: KubeletAddress, path: string, client: KubeletClient): void {
  const { response } = exchange;
  // A log that is not followed arrives soon, so its header is sent with the first bytes.
  const isFollowed = parseBoolean(exchange.query, "follow") === true;
  const upstream = sendKubeletRequest(address, path, client);
  response.once("close", () => upstream.destroy());
  upstream.once("error", (error) => {
    if (response.headersSent || response.destroyed) response.destroy();
    // The kubelet closed a kept connection at the moment of the request.
    else if (upstream.reusedSocket) streamLog(exchange, address, path, client);
    else answerFailure(exchange, unreachable(address, path, error));
  });
  upstream.once("response", (incoming) => {
    const code = incoming.statusCode ?? 500;
    if (code >= 200 && code <= 206) {
      response.writeHead(200, { "content-type": "text/plain" });
      if (isFollowed) response.flushHeaders();
      incoming.on("error", () => response.destroy());
      incoming.pipe(response);
      return;
    }
    readRefusal(incoming, code)
      .then((failure) => answerFailure(exchange, failure))
      .catch(() => response.destroy());
  });
  upstream.end();
}
