import type { ClientRequest } from "node:http";
import { Agent, request as httpsRequest, type RequestOptions } from "node:https";
import { createSecureContext } from "node:tls";
import { type JsonObject, numberAt, textAt } from "./json.ts";
import { addressOf } from "./kinds/node.ts";
import { badRequest, fail, type Failure, internalError } from "./status.ts";

/** How the server shows itself to kubelets, and which ones it believes. */
export type KubeletAccess = {
  /** Bearer token that the kubelet asks for. */
  readonly token: string;
  /** PEM of the authority that signs kubelets' certificates. */
  readonly ca: string;
};

/** The same with its connections, which are kept: a handshake costs more than a short log. */
export type KubeletClient = Disposable & { readonly token: string; readonly agent: Agent };

export function kubeletClient({ token, ca }: KubeletAccess): KubeletClient {
  const agent = new Agent({
    keepAlive: true,
    // Made once: with the PEM alone, every new connection parses it.
    secureContext: createSecureContext({ ca }),
    // The authority signs kubelets of this cluster only; which address one listens on is in its node object, not in its certificate.
    checkServerIdentity: () => undefined,
  });
  return { token, agent, [Symbol.dispose]: () => agent.destroy() };
}

export type KubeletAddress = { readonly host: string; readonly port: number };

const CONNECT_TIMEOUT_MS = 5_000;
/** So much of a kubelet's refusal is passed on. */
const REFUSAL_LIMIT_BYTES = 4_096;

/** Fails when the node has no address of its kubelet. */
export function locateKubelet(node: JsonObject): KubeletAddress {
  const host = addressOf(node, "InternalIP");
  const port = numberAt(node, "status", "daemonEndpoints", "kubeletEndpoint", "Port") ?? 0;
  if (host === "" || port === 0)
    fail(internalError(`no kubelet address known for node "${textAt(node, "metadata", "name")}"`));
  return { host, port };
}

/** A request that is not sent yet; one that gets no answer within some seconds fails with an error. */
export function kubeletRequest(
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
  return refusalOf(code, text);
}

/** The kubelet's words, in the form of the API. */
export function refusalOf(code: number, text: string): Failure {
  const message = text.trim();
  if (code === 400) return badRequest(message);
  if (code === 500) return internalError(message);
  const reason = code === 404 ? "NotFound" : code === 401 ? "Unauthorized" : code === 403 ? "Forbidden" : "";
  return { code, reason, message: message === "" ? `the kubelet answered ${code}` : message };
}
