import type { ChildProcessByStdio } from "node:child_process";
import { type IncomingMessage, STATUS_CODES } from "node:http";
import type { Duplex, Readable, Writable } from "node:stream";
import { type WebSocket, WebSocketServer } from "ws";
import { signalGroup } from "./process-tree.ts";

export type ExecProcess = ChildProcessByStdio<Writable, Readable, Readable>;

/** Runs a command with the directory and environment of a container. */
export type StartExec = (command: readonly string[]) => ExecProcess;

/** The first byte of each message names its stream. */
const CHANNEL = { stdin: 0, stdout: 1, stderr: 2, error: 3, close: 255 } as const;
const PROTOCOLS = ["v5.channel.k8s.io", "v4.channel.k8s.io"];
const MESSAGE_MAX_BYTES = 1 << 20;

const webSockets = new WebSocketServer({
  noServer: true,
  maxPayload: MESSAGE_MAX_BYTES,
  handleProtocols: (offered) => PROTOCOLS.find((name) => offered.has(name)) ?? false,
});

/** Runs a command with its input and output on a WebSocket and sends its exit status at the end. Kills the command when the client disconnects. */
export function serveExec(request: IncomingMessage, socket: Duplex, head: Buffer, start: StartExec): void {
  const offered = (request.headers["sec-websocket-protocol"] ?? "").split(",").map((name) => name.trim());
  if (!PROTOCOLS.some((name) => offered.includes(name))) {
    refuseUpgrade(socket, 400, `exec is served over WebSockets (${PROTOCOLS.join(", ")}) only`);
    return;
  }
  webSockets.handleUpgrade(request, socket, head, (client) => runCommand(request, client, start));
}

function runCommand(request: IncomingMessage, client: WebSocket, start: StartExec): void {
  const query = new URL(request.url ?? "/", "https://kubelet").searchParams;
  const child = start(query.getAll("command"));
  const finish = (status: object): void => {
    if (client.readyState !== client.OPEN) return;
    client.send(onChannel(CHANNEL.error, Buffer.from(JSON.stringify(status))));
    client.close(NORMAL_CLOSURE);
  };
  for (const [stream, channel] of [
    [child.stdout, CHANNEL.stdout],
    [child.stderr, CHANNEL.stderr],
  ] as const) {
    stream.on("data", (bytes: Buffer) => {
      stream.pause();
      client.send(onChannel(channel, bytes), () => stream.resume());
    });
  }
  child.once("error", (error) => finish(buildFailure(error)));
  child.once("close", (code, signal) => finish(buildStatus(code, signal)));
  // A command may exit, or close its input, before the client stops writing.
  child.stdin.on("error", () => undefined);
  if (query.get("input") !== "1") child.stdin.end();
  // A close follows every error.
  client.on("error", () => undefined);
  client.once("close", () => {
    if (child.pid !== undefined && child.exitCode === null && child.signalCode === null)
      signalGroup(child.pid, "SIGKILL");
  });
  readInput(client, child.stdin);
}

const NORMAL_CLOSURE = 1000;

function onChannel(channel: number, bytes: Buffer): Buffer {
  return Buffer.concat([Buffer.of(channel), bytes]);
}

/** Answers a request for another protocol in HTTP. */
export function refuseUpgrade(socket: Duplex, status: number, message: string): void {
  const lines = [`HTTP/1.1 ${status} ${STATUS_CODES[status] ?? ""}`, "Connection: close"];
  socket.end([...lines, `Content-Length: ${Buffer.byteLength(message)}`, "", message].join("\r\n"));
}

function readInput(client: WebSocket, stdin: Writable): void {
  client.on("message", (data: Buffer, isBinary) => {
    if (!isBinary || stdin.writableEnded) return;
    if (data[0] === CHANNEL.close && data[1] === CHANNEL.stdin) stdin.end();
    if (data[0] !== CHANNEL.stdin || stdin.write(data.subarray(1))) return;
    client.pause();
    stdin.once("drain", () => client.resume());
  });
  stdin.once("close", () => client.resume());
}

function buildStatus(code: number | null, signal: NodeJS.Signals | null): object {
  if (code === 0) return { metadata: {}, status: "Success" };
  if (code === null)
    return { metadata: {}, status: "Failure", message: `command ended by ${signal ?? "a signal"}`, code: 500 };
  return {
    metadata: {},
    status: "Failure",
    message: `command terminated with non-zero exit code: exit status ${code}`,
    reason: "NonZeroExitCode",
    details: { causes: [{ reason: "ExitCode", message: String(code) }] },
    code: 500,
  };
}

function buildFailure(error: Error): object {
  const message = `error executing command in container: ${error.message}`;
  return { metadata: {}, status: "Failure", message, reason: "InternalError", code: 500 };
}
