import type { HttpExchange } from "./answer.ts";
import { answerFailure } from "./answer.ts";
import { type JsonObject, listAt, textAt } from "./json.ts";
import {
  type KubeletAddress,
  type KubeletClient,
  kubeletRequest,
  readRefusal,
  unreachable,
} from "./kubelet-request.ts";
import { booleanOf } from "./query.ts";
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

/** Returns the kubelet path of a log. */
export function logPath(pod: JsonObject, container: string, query: URLSearchParams): string {
  const passed = new URLSearchParams([...query].filter(([key]) => PARAMETERS.includes(key)));
  const place = [textAt(pod, "metadata", "namespace"), textAt(pod, "metadata", "name"), container].map(
    encodeURIComponent,
  );
  const suffix = passed.size === 0 ? "" : `?${passed.toString()}`;
  return `/containerLogs/${place.join("/")}${suffix}`;
}

/** Streams the kubelet's answer to the client; when one side ends, the other ends too. */
export function streamLog(exchange: HttpExchange, address: KubeletAddress, path: string, client: KubeletClient): void {
  const { response } = exchange;
  // A log that is not followed arrives soon, so its header is sent with the first bytes.
  const isFollowed = booleanOf(exchange.query, "follow") === true;
  const upstream = kubeletRequest(address, path, client);
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
