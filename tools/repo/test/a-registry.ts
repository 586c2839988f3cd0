import { once } from "node:events";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { buffer } from "node:stream/consumers";
import { computeDigest } from "../release/build-layout.ts";

/** A registry of the OCI distribution API in this process. It requires a token of `user` with the password `password` before it accepts a push. */
export type Registry = AsyncDisposable & {
  readonly host: string;
  /** The content of the config.json that `docker login` stores. */
  readonly dockerConfig: string;
  /** Manifests by `repository@reference`. */
  readonly manifests: ReadonlyMap<string, Stored>;
  readonly uploads: () => number;
};

type Stored = { readonly type: string; readonly content: Buffer };
type Reply = {
  readonly status: number;
  readonly headers?: Readonly<Record<string, string>>;
  readonly content?: Buffer;
};
type Named = { readonly digest: string };
type Manifest = { readonly config?: Named; readonly layers?: readonly Named[]; readonly manifests?: readonly Named[] };

const AUTH = Buffer.from("user:password").toString("base64");

export async function startRegistry(): Promise<Registry> {
  const manifests = new Map<string, Stored>();
  const blobs = new Map<string, Buffer>();
  let uploads = 0;
  const server = createServer((request, response) => void send(request, response));
  await once(server.listen(0, "127.0.0.1"), "listening");
  const host = `127.0.0.1:${(server.address() as AddressInfo).port}`;

  async function send(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { status, headers = {}, content = Buffer.alloc(0) } = answer(request, await buffer(request));
    response.writeHead(status, { "content-length": String(content.length), ...headers });
    response.end(request.method === "HEAD" ? undefined : content);
  }

  function answer({ method = "", url = "/", headers }: IncomingMessage, body: Buffer): Reply {
    const { pathname, searchParams } = new URL(url, `http://${host}`);
    const { authorization } = headers;
    if (pathname === "/token")
      return authorization === `Basic ${AUTH}`
        ? { status: 200, content: Buffer.from('{"token":"t"}') }
        : { status: 401 };
    const challenge = { "www-authenticate": `Bearer realm="http://${host}/token",service="registry"` };
    if (!["GET", "HEAD"].includes(method) && authorization !== "Bearer t") return { status: 401, headers: challenge };
    const [, repository = "", kind, reference = ""] = /^\/v2\/(.+)\/(blobs|manifests)\/(.*)$/.exec(pathname) ?? [];
    if (kind === undefined) return { status: pathname === "/v2/" ? 200 : 404 };
    if (method === "POST") return { status: 202, headers: { location: `/v2/${repository}/blobs/uploads/1` } };
    if (method === "PUT" && kind === "blobs") return putBlob(repository, searchParams.get("digest") ?? "", body);
    if (method === "PUT") return putManifest(repository, reference, headers["content-type"] ?? "", body);
    return read(`${repository}@${reference}`);
  }

  function putBlob(repository: string, digest: string, content: Buffer): Reply {
    if (digest !== computeDigest(content)) return { status: 400, content: Buffer.from("DIGEST_INVALID") };
    uploads += 1;
    blobs.set(`${repository}@${digest}`, content);
    return { status: 201 };
  }

  function putManifest(repository: string, reference: string, type: string, content: Buffer): Reply {
    const { config, layers = [], manifests: platforms = [] } = JSON.parse(content.toString()) as Manifest;
    const contents = [...layers, ...(config === undefined ? [] : [config])];
    const isWhole =
      contents.every(({ digest }) => blobs.has(`${repository}@${digest}`)) &&
      platforms.every(({ digest }) => manifests.has(`${repository}@${digest}`));
    if (!isWhole) return { status: 404, content: Buffer.from("MANIFEST_BLOB_UNKNOWN") };
    for (const name of [reference, computeDigest(content)]) manifests.set(`${repository}@${name}`, { type, content });
    return { status: 201 };
  }

  function read(name: string): Reply {
    const manifest = manifests.get(name);
    const content = manifest?.content ?? blobs.get(name);
    if (content === undefined) return { status: 404 };
    const type = manifest?.type ?? "application/octet-stream";
    return { status: 200, headers: { "content-type": type, "docker-content-digest": computeDigest(content) }, content };
  }

  return {
    host,
    dockerConfig: JSON.stringify({ auths: { [host]: { auth: AUTH } } }),
    manifests,
    uploads: () => uploads,
    [Symbol.asyncDispose]: async () => {
      server.close();
      server.closeAllConnections();
      await once(server, "close");
    },
  };
}
