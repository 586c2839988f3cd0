import type { ClientRequest } from "node:http";
import { Agent, request as httpsRequest, type RequestOptions } from "node:https";
import { createSecureContext } from "node:tls";
import { type JsonObject, findNumber, getText } from "./json.ts";
import { getAddress } from "./kinds/node.ts";
import { badRequest, fail, type Failure, internalError } from "./status.ts";

/** The credentials between the server and its kubelets. */
export type KubeletAccess = {
  /** Bearer token that the server sends to the kubelet. */
  readonly token: string;
  /** PEM of the authority that signs kubelets' certificates. */
  readonly ca: string;
};

/** Access with kept connections, because a handshake costs more than a short log. */
export type KubeletClient = Disposable & { readonly token: string; readonly agent: Agent };

export function makeKubeletClient({ token, ca }: KubeletAccess): KubeletClient {
  const agent = new Agent({
    keepAlive: true,
    // The context is created once: with the PEM alone, every new connection parses it.
    secureContext: createSecureContext({ ca }),
    // The authority signs only kubelets of this cluster. The address of a kubelet is in its node object, not in its certificate.
    checkServerIdentity: () => undefined,
  });
  return { token, agent, [Symbol.dispose]: () => agent.destroy() };
}

export type KubeletAddress = { readonly host: string; readonly port: number };

const CONNECT_TIMEOUT_MS = 5_000;
/** Maximum bytes of a kubelet's refusal that are forwarded. */
const REFUSAL_LIMIT_BYTES = 4_096;

/** Returns the address of a node's kubelet; fails if the node has none. */
export function locateKubelet(node: JsonObject): KubeletAddress {
  const host = getAddress(node, "InternalIP");
  const port = findNumber(node, "status", "daemonEndpoints", "kubeletEndpoint", "Port") ?? 0;
  if (host === "" || port === 0)
    fail(internalError(`no kubelet address known for node "${getText(node, "metadata", "name")}"`));
  return { host, port };
}

/** Prepares a request without sending it. It fails with an error if no answer arrives within some seconds. */
export function sendKubeletRequest(
  { host, port }: KubeletAddress,
  path: string,
  { token, agent }: KubeletClient,
  headers: RequestOptions["headers"] = {},
): ClientRequest {
  const request = httpsRequest({
    host,
    port,
    path,
    headers: { ...headers, authorization: `Bearer ${token}` },
    agent,
  });
  const late = setTimeout(() => request.destroy(new Error("connecting timed out")), CONNECT_TIMEOUT_MS);
  for (const event of ["response", "upgrade", "close"]) request.once(event, () => clearTimeout(late));
  return request;
}

/** The answer when the kubelet cannot be reached. */
export function unreachable({ host, port }: KubeletAddress, path: string, error: Error): Failure {
  return internalError(`Get "https://${host}:${port}${path}": ${error.message}`);
}

/** Reads the error of a kubelet. */
export async function readRefusal(incoming: AsyncIterable<unknown>, code: number): Promise<Failure> {
  let text = "";
  for await (const chunk of incoming) text = (text + String(chunk)).slice(0, REFUSAL_LIMIT_BYTES);
  return describeKubeletRefusal(code, text);
}

/** Converts a kubelet's refusal to a failure of the API. */
export function describeKubeletRefusal(code: number, text: string): Failure {
  const message = text.trim();
  if (code === 400) return badRequest(message);
  if (code === 500) return internalError(message);
  const reason = code === 404 ? "NotFound" : code === 401 ? "Unauthorized" : code === 403 ? "Forbidden" : "";
  return { code, reason, message: message === "" ? `the kubelet answered ${code}` : message };
}
