import { createHash } from "node:crypto";
import { once } from "node:events";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { buffer } from "node:stream/consumers";

/** A registry of the OCI distribution API in this process, which asks for the user `user` with the password `password`, by a token of its own. */
export type Registry = AsyncDisposable & {
  readonly host: string;
  /** What `docker login` stores: the content of config.json. */
  readonly dockerConfig: string;
  /** Media type and content, by `repository@reference`. */
  readonly manifests: ReadonlyMap<string, { readonly type: string; readonly content: Buffer }>;
  readonly uploads: () => number;
};

const TOKEN = "Bearer of-the-registry";

export async function startRegistry(): Promise<Registry> {
  const manifests = new Map<string, { type: string; content: Buffer }>();
  const blobs = new Map<string, Buffer>();
  let uploads = 0;
  const server = createServer((request, response) => void answer(request, response));
  await once(server.listen(0, "127.0.0.1"), "listening");
  const host = `127.0.0.1:${(server.address() as AddressInfo).port}`;
  const auth = Buffer.from("user:password").toString("base64");

  async function answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const body: Buffer = await buffer(request);
    const { pathname, searchParams } = new URL(request.url ?? "/", `http://${host}`);
    const end = (status: number, headers: Record<string, string> = {}, content: Buffer = Buffer.alloc(0)): void => {
      const length = { "content-length": String(content.length) };
      response.writeHead(status, { ...length, ...headers }).end(request.method === "HEAD" ? undefined : content);
    };
    if (pathname === "/token") {
      const token = Buffer.from(JSON.stringify({ token: "of-the-registry" }));
      return request.headers.authorization === `Basic ${auth}` ? end(200, {}, token) : end(401);
    }
    const isPull = request.method === "GET" || request.method === "HEAD";
    if (!isPull && request.headers.authorization !== TOKEN)
      return end(401, { "www-authenticate": `Bearer realm="http://${host}/token",service="registry"` });
    if (pathname === "/v2/") return end(200);
    const [, repository = "", kind, reference = ""] = /^\/v2\/(.+)\/(blobs|manifests)\/(.*)$/.exec(pathname) ?? [];
    if (kind === "blobs" && request.method === "POST")
      return end(202, { location: `/v2/${repository}/blobs/uploads/1` });
    if (kind === "blobs" && request.method === "PUT") {
      const digest = searchParams.get("digest") ?? "";
      if (digest !== digestOf(body)) return end(400, {}, Buffer.from("DIGEST_INVALID"));
      uploads += 1;
      blobs.set(`${repository}@${digest}`, body);
      return end(201);
    }
    if (kind === "manifests" && request.method === "PUT") {
      const named = JSON.parse(body.toString()) as Manifest;
      const contents = [...(named.layers ?? []), ...(named.config === undefined ? [] : [named.config])];
      const isKnown =
        contents.every(({ digest }) => blobs.has(`${repository}@${digest}`)) &&
        (named.manifests ?? []).every(({ digest }) => manifests.has(`${repository}@${digest}`));
      if (!isKnown) return end(404, {}, Buffer.from("MANIFEST_BLOB_UNKNOWN"));
      const stored = { type: request.headers["content-type"] ?? "", content: body };
      manifests.set(`${repository}@${reference}`, stored).set(`${repository}@${digestOf(body)}`, stored);
      return end(201);
    }
    const manifest = manifests.get(`${repository}@${reference}`);
    const blob = kind === "blobs" ? blobs.get(`${repository}@${reference}`) : undefined;
    if (manifest !== undefined)
      return end(
        200,
        { "content-type": manifest.type, "docker-content-digest": digestOf(manifest.content) },
        manifest.content,
      );
    return blob === undefined ? end(404) : end(200, { "content-type": "application/octet-stream" }, blob);
  }

  return {
    host,
    dockerConfig: JSON.stringify({ auths: { [host]: { auth } } }),
    manifests,
    uploads: () => uploads,
    [Symbol.asyncDispose]: async () => {
      server.close();
      server.closeAllConnections();
      await once(server, "close");
    },
  };
}

type Named = { readonly digest: string };
type Manifest = { readonly config?: Named; readonly layers?: readonly Named[]; readonly manifests?: readonly Named[] };

const digestOf = (content: Buffer): string => `sha256:${createHash("sha256").update(content).digest("hex")}`;
