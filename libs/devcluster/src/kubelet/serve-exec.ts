import type { ChildProcessByStdio } from "node:child_process";
import { type IncomingMessage, STATUS_CODES } from "node:http";
import type { Duplex, Readable, Writable } from "node:stream";
import { signalGroup } from "./process-tree.ts";
import { acceptWebSocket, encodeFrame, type Frame, frameDecoder, OPCODE } from "./web-socket.ts";

export type ExecProcess = ChildProcessByStdio<Writable, Readable, Readable>;

/** Runs a command where and as a container's own process runs. */
export type StartExec = (command: readonly string[]) => ExecProcess;

/** The first byte of each message says what it is of. */
const CHANNEL = { stdin: 0, stdout: 1, stderr: 2, error: 3, close: 255 } as const;
const PROTOCOLS = ["v5.channel.k8s.io", "v4.channel.k8s.io"];
const NORMAL_CLOSURE = 1000;

/** Runs a command with its input and output on a WebSocket, and tells at the end how it ended. A client that goes away ends the command. */
export function serveExec(request: IncomingMessage, socket: Duplex, head: Buffer, start: StartExec): void {
  const accepted = acceptWebSocket(request, PROTOCOLS);
  if (accepted === undefined) {
    refuseUpgrade(socket, 400, `commands are run over WebSockets (${PROTOCOLS.join(", ")}) alone`);
    return;
  }
  socket.write(accepted);
  const query = new URL(request.url ?? "/", "https://kubelet").searchParams;
  const child = start(query.getAll("command"));
  const send = (channel: number, bytes: Buffer): boolean =>
    socket.write(encodeFrame(OPCODE.binary, Buffer.concat([Buffer.of(channel), bytes])));
  const finish = (status: object): void => {
    if (socket.writableEnded || socket.destroyed) return;
    send(CHANNEL.error, Buffer.from(JSON.stringify(status)));
    const code = Buffer.alloc(2);
    code.writeUInt16BE(NORMAL_CLOSURE);
    socket.end(encodeFrame(OPCODE.close, code));
  };
  const endChild = (): void => {
    if (child.pid !== undefined && child.exitCode === null && child.signalCode === null)
      signalGroup(child.pid, "SIGKILL");
  };
  for (const [stream, channel] of [
    [child.stdout, CHANNEL.stdout],
    [child.stderr, CHANNEL.stderr],
  ] as const) {
    stream.on("data", (bytes: Buffer) => {
      if (!send(channel, bytes)) stream.pause();
    });
    socket.on("drain", () => stream.resume());
  }
  child.once("error", (error) => finish(buildFailure(error)));
  child.once("close", (code, signal) => finish(buildStatus(code, signal)));
  // Whoever does not read its input, or has ended, is not written to.
  child.stdin.on("error", () => undefined);
  if (query.get("input") !== "1") child.stdin.end();
  socket.once("error", endChild);
  socket.once("close", endChild);
  readInput(socket, head, child.stdin);
}

/** Answers a request for another protocol in HTTP. */
export function refuseUpgrade(socket: Duplex, status: number, message: string): void {
  const lines = [`HTTP/1.1 ${status} ${STATUS_CODES[status] ?? ""}`, "Connection: close"];
  socket.end([...lines, `Content-Length: ${Buffer.byteLength(message)}`, "", message].join("\r\n"));
}

function readInput(socket: Duplex, head: Buffer, stdin: Writable): void {
  const decode = frameDecoder();
  const take = ({ opcode, payload }: Frame): void => {
    if (opcode === OPCODE.ping) socket.write(encodeFrame(OPCODE.pong, payload));
    if (opcode === OPCODE.close) socket.end(encodeFrame(OPCODE.close, payload));
    if (opcode !== OPCODE.binary || stdin.writableEnded) return;
    if (payload[0] === CHANNEL.close && payload[1] === CHANNEL.stdin) stdin.end();
    if (payload[0] !== CHANNEL.stdin || stdin.write(payload.subarray(1))) return;
    socket.pause();
    stdin.once("drain", () => socket.resume());
  };
  const read = (chunk: Buffer): void => {
    const frames = decode(chunk);
    if (frames === undefined) socket.destroy();
    else frames.forEach(take);
  };
  socket.on("data", read);
  stdin.once("close", () => socket.resume());
  if (head.length > 0) read(head);
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
