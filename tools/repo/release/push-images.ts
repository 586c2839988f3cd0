import { execFile } from "node:child_process";
import { existsSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import type { BuiltImage } from "./build-layout.ts";

/** A registry that does not answer within this time does not hold the release. Uploads of layers take as long as they need. */
const ANSWER_TIMEOUT_MS = 60_000;
const UPLOAD_TIMEOUT_MS = 900_000;

type DockerConfig = {
  readonly auths?: Readonly<Record<string, { readonly auth?: string }>>;
  readonly credHelpers?: Readonly<Record<string, string>>;
  readonly credsStore?: string;
};
type Request = { readonly method: string; readonly path: string; readonly type?: string; readonly body?: Buffer };

/**
 * Pushes images with their digests, and tags each with the version. `dockerConfig` is the folder where `docker login` stores credentials.
 * Contents that the registry has are not sent again. Rejects at the first refusal.
 */
export async function pushImages(
  images: readonly BuiltImage[],
  registry: string,
  version: string,
  dockerConfig: string,
): Promise<void> {
  const [host = "", ...folders] = registry.split("/");
  for (const image of images) {
    const call = caller(host, [...folders, image.name].join("/"), dockerConfig);
    const isManifest = (content: Buffer): boolean => content.subarray(0, 64).includes('"schemaVersion"');
    const blobs = [...image.blobs];
    for (const [digest, content] of blobs) if (!isManifest(content)) await pushBlob(call, digest, content);
    for (const [digest, content] of blobs) if (isManifest(content)) await pushManifest(call, digest, content);
    const index = image.blobs.get(image.index.digest);
    if (index !== undefined) await pushManifest(call, version, index);
  }
}

type Call = (request: Request) => Promise<Response>;

async function pushBlob(call: Call, digest: string, content: Buffer): Promise<void> {
  if ((await call({ method: "HEAD", path: `blobs/${digest}` })).ok) return;
  const started = await accept(call({ method: "POST", path: "blobs/uploads/" }), `upload of ${digest}`);
  const location = new URL(started.headers.get("location") ?? "", started.url);
  location.searchParams.set("digest", digest);
  const request = { method: "PUT", path: location.href, type: "application/octet-stream", body: content };
  await accept(call(request), `upload of ${digest}`);
}

async function pushManifest(call: Call, reference: string, content: Buffer): Promise<void> {
  const { mediaType } = JSON.parse(content.toString()) as { mediaType: string };
  const request = { method: "PUT", path: `manifests/${reference}`, type: mediaType, body: content };
  await accept(call(request), `manifest ${reference}`);
}

async function accept(answer: Promise<Response>, what: string): Promise<Response> {
  const response = await answer;
  if (response.ok) return response;
  throw new Error(`${response.url} refused the ${what}: ${response.status} ${await response.text()}`);
}

/** Calls one repository of the distribution API. A token of its authority is requested once. */
function caller(host: string, repository: string, dockerConfig: string): Call {
  const isLocal = /^(?:localhost|127\.0\.0\.1)(?::|$)/.test(host);
  const base = `${isLocal ? "http" : "https"}://${host}/v2/${repository}/`;
  let authorization: string | undefined;
  const send = ({ method, path, type, body }: Request): Promise<Response> =>
    fetch(new URL(path, base), {
      method,
      headers: {
        ...(authorization === undefined ? {} : { authorization }),
        ...(type === undefined ? {} : { "content-type": type }),
      },
      ...(body === undefined ? {} : { body: new Uint8Array(body) }),
      signal: AbortSignal.timeout(body === undefined ? ANSWER_TIMEOUT_MS : UPLOAD_TIMEOUT_MS),
    });
  return async (request) => {
    const response = await send(request);
    if (response.status !== 401) return response;
    authorization = await authorize(host, response.headers.get("www-authenticate") ?? "", repository, dockerConfig);
    return send(request);
  };
}

async function authorize(host: string, challenge: string, repository: string, dockerConfig: string): Promise<string> {
  const basic = await readCredential(host, join(dockerConfig, "config.json"));
  if (/^basic/i.test(challenge)) {
    if (basic === undefined) throw new Error(`${host} needs a login: docker login ${host}`);
    return `Basic ${basic}`;
  }
  const fields = new Map([...challenge.matchAll(/(\w+)="([^"]*)"/g)].map(([, name = "", value = ""]) => [name, value]));
  const realm = URL.parse(fields.get("realm") ?? "");
  if (realm === null) throw new Error(`${host} asks for credentials in an unknown way: ${challenge}`);
  realm.searchParams.set("service", fields.get("service") ?? "");
  realm.searchParams.set("scope", `repository:${repository}:pull,push`);
  const response = await fetch(realm, {
    headers: basic === undefined ? {} : { authorization: `Basic ${basic}` },
    signal: AbortSignal.timeout(ANSWER_TIMEOUT_MS),
  });
  if (!response.ok)
    throw new Error(`${realm.origin} gives no token for ${host}: ${response.status}; docker login ${host}`);
  const { token, access_token: accessToken } = (await response.json()) as { token?: string; access_token?: string };
  return `Bearer ${token ?? accessToken ?? ""}`;
}

/** The base64 of `user:password` that `docker login` stored; undefined without one. */
async function readCredential(host: string, file: string): Promise<string | undefined> {
  if (!existsSync(file)) return undefined;
  const config = JSON.parse(await readFile(file, "utf8")) as DockerConfig;
  const helper = config.credHelpers?.[host] ?? config.credsStore;
  if (helper === undefined) return config.auths?.[host]?.auth;
  const asked = promisify(execFile)(`docker-credential-${helper}`, ["get"]);
  asked.child.stdin?.end(host);
  const { Username, Secret } = JSON.parse((await asked).stdout) as { Username: string; Secret: string };
  return Buffer.from(`${Username}:${Secret}`).toString("base64");
}
