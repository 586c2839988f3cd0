import { once } from "node:events";
import { type ClientHttp2Session, type ClientHttp2Stream, connect } from "node:http2";

export type GrpcProbe = {
  readonly host: string;
  readonly port: number;
  /** "" asks for the server as a whole. */
  readonly service: string;
  readonly timeoutMs: number;
};

const PATH = "/grpc.health.v1.Health/Check";
/** Before a message: whether it is compressed, and its length. */
const PREFIX_BYTES = 5;
const SERVICE_TAG = 0x0a;
const STATUS_TAG = 0x08;
const SERVING = 1;
/** Of an answer, which has two bytes when it is one. */
const ANSWER_MAX_BYTES = 1024;

/** Asks the health service of a gRPC server once. True when it answers SERVING. */
export async function probeGrpc({ host, port, service, timeoutMs }: GrpcProbe): Promise<boolean> {
  const session = connect(`http://${host}:${port}`);
  const late = setTimeout(() => session.destroy(), timeoutMs);
  // Told by the stream as well, which is what is waited for.
  session.on("error", () => undefined);
  try {
    return isServing(await ask(session, `${host}:${port}`, service));
  } catch {
    return false;
  } finally {
    clearTimeout(late);
    session.destroy();
  }
}

async function ask(session: ClientHttp2Session, authority: string, service: string): Promise<Buffer> {
  const stream: ClientHttp2Stream = session.request({
    ":method": "POST",
    ":path": PATH,
    ":authority": authority,
    "content-type": "application/grpc",
    "user-agent": "kube-probe/1.36",
    te: "trailers",
  });
  let answer = Buffer.alloc(0);
  let code: unknown;
  stream.on("data", (chunk: Buffer) => {
    answer = Buffer.concat([answer, chunk]);
    if (answer.length > ANSWER_MAX_BYTES) stream.destroy();
  });
  // A server that only refuses says so in the head.
  for (const event of ["response", "trailers"] as const) {
    stream.on(event, (headers: Record<string, unknown>) => {
      code = headers["grpc-status"] ?? code;
    });
  }
  stream.end(buildHealthRequest(service));
  await once(stream, "close");
  return code === "0" ? answer : Buffer.alloc(0);
}

/** `HealthCheckRequest { string service = 1 }` behind its prefix. */
export function buildHealthRequest(service: string): Buffer {
  const name = Buffer.from(service);
  const message = name.length === 0 ? name : Buffer.concat([Buffer.from([SERVICE_TAG, ...varint(name.length)]), name]);
  const prefix = Buffer.alloc(PREFIX_BYTES);
  prefix.writeUInt32BE(message.length, 1);
  return Buffer.concat([prefix, message]);
}

/** Whether this is `HealthCheckResponse { ServingStatus status = 1 }` that says SERVING, not compressed. */
function isServing(answer: Buffer): boolean {
  const [compressed, tag, status] = [answer[0], answer[PREFIX_BYTES], answer[PREFIX_BYTES + 1]];
  return answer.length === PREFIX_BYTES + 2 && compressed === 0 && tag === STATUS_TAG && status === SERVING;
}

function varint(value: number): number[] {
  return value < 0x80 ? [value] : [(value & 0x7f) | 0x80, ...varint(value >>> 7)];
}
