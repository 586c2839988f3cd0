import type { Duplex } from "node:stream";
import { answerFailure, type HttpExchange } from "./answer.ts";
import type { JsonObject } from "./json.ts";
import { getText } from "./json.ts";
import {
  type KubeletAddress,
  type KubeletClient,
  sendKubeletRequest,
  readRefusal,
  unreachable,
} from "./kubelet-request.ts";
import { badRequest, fail } from "./status.ts";

/** Headers of the client's WebSocket request that the API server forwards to the kubelet. */
const HEADERS = ["sec-websocket-key", "sec-websocket-version", "sec-websocket-protocol", "sec-websocket-extensions"];

/** Where a command is run. Fails for unsupported requests: a terminal, and pods that are on no node. */
export function locateExec(pod: JsonObject, container: string, query: URLSearchParams): string {
  if (query.getAll("command").length === 0) fail(badRequest("you must specify at least 1 command for the container"));
  if (query.get("tty") === "true" || query.get("tty") === "1") {
    fail(
      badRequest(
        "a terminal is not supported: the containers of this cluster are processes without one, leave out --tty",
      ),
    );
  }
  const name = getText(pod, "metadata", "name");
  if (getText(pod, "spec", "nodeName") === "") fail(badRequest(`pod ${name} does not have a host assigned`));
  const place = [getText(pod, "metadata", "namespace"), name, container].map(encodeURIComponent);
  const passed = new URLSearchParams(query.getAll("command").map((part): [string, string] => ["command", part]));
  for (const [from, to] of [
    ["stdin", "input"],
    ["stdout", "output"],
    ["stderr", "error"],
  ] as const) {
    if (["1", "true"].includes(query.get(from) ?? "")) passed.set(to, "1");
  }
  return `/exec/${place.join("/")}?${passed.toString()}`;
}

/** Connects a client's WebSocket to the kubelet; when one side ends, the other ends too. */
export function tunnelExec(
  exchange: HttpExchange,
  address: KubeletAddress,
  path: string,
  kubelets: KubeletClient,
): void {
  const { request, tunnel } = exchange;
  if (tunnel === undefined) fail(badRequest("exec is served over WebSockets (v5.channel.k8s.io) alone"));
  const client = tunnel.socket;
  const passed = HEADERS.flatMap((name) => {
    const value = request.headers[name];
    return typeof value === "string" ? [[name, value] as const] : [];
  });
  const headers = { connection: "Upgrade", upgrade: "websocket", ...Object.fromEntries(passed) };
  const upstream = sendKubeletRequest(address, path, kubelets, headers);
  client.once("close", () => upstream.destroy());
  upstream.once("error", (error) => answerFailure(exchange, unreachable(address, path, error)));
  upstream.once("response", (incoming) => {
    readRefusal(incoming, incoming.statusCode ?? 500)
      .then((failure) => answerFailure(exchange, failure))
      .catch(() => client.destroy());
  });
  upstream.once("upgrade", (incoming, kubelet, head) => {
    tunnel.open();
    const lines = Object.entries(incoming.headers).map(([name, value]) => `${name}: ${String(value)}`);
    client.write(["HTTP/1.1 101 Switching Protocols", ...lines, "", ""].join("\r\n"));
    kubelet.unshift(head);
    client.unshift(tunnel.head);
    join(client, kubelet);
    join(kubelet, client);
  });
  upstream.end();
}

function join(from: Duplex, to: Duplex): void {
  from.pipe(to);
  from.once("error", () => to.destroy());
  from.once("close", () => to.destroy());
}
