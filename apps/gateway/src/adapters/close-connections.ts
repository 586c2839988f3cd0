import type { Http2SecureServer, ServerHttp2Session, ServerHttp2Stream } from "node:http2";
import type { TLSSocket } from "node:tls";

type Connection = {
  readonly socket: TLSSocket;
  /** Undefined over HTTP/1.1. */
  session: ServerHttp2Session | undefined;
  readonly streams: Set<ServerHttp2Stream>;
  /** True if an earlier check found that the connection is over. */
  isDue: boolean;
};

/** Interval of the checks for connections that are over; their clients have at least this time to close them. */
const CHECK_MS = 1000;

/**
 * Closes the connections that their clients keep open after the end of their HTTP/2 session, for example after its timeout. Node itself waits without a limit
 * for the client to read and to close its side. The returned function closes all connections, whatever they carry.
 */
export function closeConnections(server: Http2SecureServer): () => void {
  const connections = new Set<Connection>();
  let accepted: Connection | undefined;
  let isStopping = false;
  // The server creates the session of the connection in its own, later listener.
  server.prependListener("secureConnection", (socket: TLSSocket) => {
    const connection: Connection = { socket, session: undefined, streams: new Set(), isDue: false };
    accepted = connection;
    connections.add(connection);
    socket.once("close", () => connections.delete(connection));
  });
  server.on("session", (session: ServerHttp2Session) => {
    const connection = accepted;
    if (connection === undefined) return;
    connection.session = session;
    session.on("stream", (stream: ServerHttp2Stream) => {
      connection.streams.add(stream);
      stream.once("close", () => connection.streams.delete(stream));
    });
  });
  const check = setInterval(() => {
    for (const connection of connections) {
      if (!isStopping && !isOver(connection)) continue;
      if (connection.isDue) connection.socket.destroy();
      connection.isDue = true;
    }
  }, CHECK_MS).unref();
  server.once("close", () => clearInterval(check));
  return () => {
    isStopping = true;
  };
}

/** Returns whether the session accepts no more requests, and all its answers are complete and wait only for the client. */
function isOver({ session, streams }: Connection): boolean {
  if (session === undefined || !(session.closed || session.destroyed)) return false;
  return [...streams].every(({ writableEnded }) => writableEnded);
}
