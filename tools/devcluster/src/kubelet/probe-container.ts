import { spawn } from "node:child_process";
import { once } from "node:events";
import { request as httpRequest } from "node:http";
import { request as httpsRequest } from "node:https";
import { connect } from "node:net";
import type { V1Container, V1HTTPGetAction, V1Probe } from "@kubernetes/client-node";
import { CONTAINER_VARIABLE, killTree } from "./process-tree.ts";

export type ProbeTarget = {
  readonly container: V1Container;
  readonly podIp: string;
  readonly timeoutMs: number;
  /** For exec: the probe's process runs in the container's environment and directory. */
  readonly env: Readonly<Record<string, string>>;
  readonly workingDirectory: string;
  readonly containerId: string;
};

/** Probes once. True after a connection, a status from 200 to 399, or exit code 0. A gRPC probe never succeeds. */
export async function probeContainer(probe: V1Probe, target: ProbeTarget): Promise<boolean> {
  if (probe.tcpSocket !== undefined) {
    return probeTcp(probe.tcpSocket.host ?? target.podIp, resolvePort(probe.tcpSocket.port, target), target.timeoutMs);
  }
  if (probe.httpGet !== undefined) return probeHttp(probe.httpGet, target);
  if (probe.exec !== undefined) return probeExec(probe.exec.command ?? [], target);
  return false;
}

async function probeTcp(host: string, port: number, timeoutMs: number): Promise<boolean> {
  const socket = connect({ host, port, timeout: timeoutMs });
  socket.on("timeout", () => socket.destroy(new Error("timeout")));
  try {
    await once(socket, "connect");
    return true;
  } catch {
    return false;
  } finally {
    socket.destroy();
  }
}

async function probeHttp(get: V1HTTPGetAction, target: ProbeTarget): Promise<boolean> {
  const send = get.scheme === "HTTPS" ? httpsRequest : httpRequest;
  const headers = Object.fromEntries((get.httpHeaders ?? []).map(({ name, value }) => [name, value]));
  const request = send({
    host: get.host ?? target.podIp,
    port: resolvePort(get.port, target),
    path: get.path ?? "/",
    headers: { "user-agent": "kube-probe/1.36", ...headers },
    timeout: target.timeoutMs,
    // As in Kubernetes, the probe checks whether the server answers, not its identity.
    rejectUnauthorized: false,
    agent: false,
  });
  const late = setTimeout(() => request.destroy(new Error("timeout")), target.timeoutMs);
  return new Promise((resolve) => {
    request.on("response", (response) => {
      response.resume();
      clearTimeout(late);
      const status = response.statusCode ?? 0;
      resolve(status >= 200 && status < 400);
      response.destroy();
    });
    request.on("error", () => {
      clearTimeout(late);
      resolve(false);
    });
    request.end();
  });
}

async function probeExec(command: readonly string[], target: ProbeTarget): Promise<boolean> {
  const [file = "", ...args] = command;
  const id = `${target.containerId}/probe`;
  const child = spawn(file, args, {
    cwd: target.workingDirectory,
    env: { ...target.env, [CONTAINER_VARIABLE]: id },
    detached: true,
    stdio: "ignore",
  });
  const { pid } = child;
  if (pid === undefined) {
    await once(child, "error");
    return false;
  }
  const late = setTimeout(() => killTree(pid, id), target.timeoutMs);
  const [code] = (await once(child, "exit")) as [number | null];
  clearTimeout(late);
  return code === 0;
}

/** Resolves a number, or the name of one of the container's ports; an unknown name becomes 0, a port without listeners. */
function resolvePort(port: string | number, { container }: ProbeTarget): number {
  const number = Number(port);
  if (Number.isInteger(number)) return number;
  return container.ports?.find((each) => each.name === port)?.containerPort ?? 0;
}
