import { readFileSync } from "node:fs";
import { findFault } from "@muster/faults";
import { AuditService } from "@muster/proto";
import type { ConnectedCli } from "../cli.ts";
import { CommandError } from "../command-error.ts";
import { EXIT } from "../domain/decide-exit.ts";
import { describeGateway, needsNats, type Gateway } from "../domain/decide-gateway.ts";
import type { ServiceReplica } from "../domain/build-doctor-report.ts";
import type { ServiceLink, ServiceCalls } from "../kinds/kind.ts";
import { readPages, STATUS_TIMEOUT_MS } from "./read-pages.ts";
import { resolveFromContextFile } from "./context-file.ts";
import { makeGatewayCalls } from "./gateway-calls.ts";
import { openGatewayHttp } from "./gateway-http.ts";
import { makeTokenSource } from "./gateway-token.ts";
import { openMusterServices } from "./muster-services.ts";

const CONNECT_TIMEOUT_MS = 5000;

/** Calls the services through the gateway. Rejects with CommandError if the gateway cannot be reached, or its certificate is unknown. */
export async function connectGateway(
  gateway: Gateway,
  contextFile: string,
  { stop, namespace, allNamespaces }: Pick<ServiceLink, "stop" | "namespace" | "allNamespaces">,
): Promise<ConnectedCli> {
  const authority = readAuthority(gateway, contextFile);
  const http = openGatewayHttp(gateway, authority, makeTokenSource(gateway, contextFile));
  await using opening = new AsyncDisposableStack();
  opening.use(http);
  await http.check(CONNECT_TIMEOUT_MS, stop);
  opening.move();
  const calls = makeGatewayCalls(http, allNamespaces === true ? "" : gateway.namespace);
  const refuse = (what: string) => (): Promise<never> => {
    const { message, hint } = needsNats(what);
    return Promise.reject(new CommandError(EXIT.usage, message, { hint }));
  };
  const letters = refuse("reading dead letters");
  return {
    address: describeGateway(gateway),
    hint: () => gateway.hint,
    services: openMusterServices(calls, stop),
    link: { ...calls, stop, namespace, allNamespaces },
    deadLetters: { list: letters, show: letters, replay: letters, drop: letters },
    nats: refuse("the state of NATS"),
    replicas: () => listReplicas(calls, stop),
    dropped: refuse("the list of dropped signals"),
    // Each HTTP request reports a lost connection by itself.
    onLink: () => ({ [Symbol.dispose]: () => undefined }),
    [Symbol.asyncDispose]: () => http[Symbol.asyncDispose](),
  };
}

/** The list is empty if an older gateway does not serve it. */
async function listReplicas({ client }: ServiceCalls, signal: AbortSignal): Promise<ServiceReplica[]> {
  const audit = client(AuditService);
  const options = { timeoutMs: STATUS_TIMEOUT_MS, signal };
  const listed = readPages(
    (page) => audit.listVersions(page, options),
    "versions",
    ({ service, id, version }) => ({ name: service, id, version, metadata: {} }),
  );
  return listed.catch((error: unknown) => {
    if (findFault(error)?.code === "not_found") return [];
    throw error;
  });
}

function readAuthority({ authority }: Gateway, contextFile: string): string | undefined {
  switch (authority.kind) {
    case "system":
      return undefined;
    case "data":
      return Buffer.from(authority.base64, "base64").toString();
    case "file":
      return readFile(authority.file);
    case "context-file":
      return readFile(resolveFromContextFile(contextFile, authority.file));
  }
}

function readFile(path: string): string {
  try {
    return readFileSync(path, "utf8");
  } catch (cause) {
    const reason = cause instanceof Error ? cause.message : String(cause);
    throw new CommandError(EXIT.usage, `reading the certificate authority: ${reason}`, { cause });
  }
}
