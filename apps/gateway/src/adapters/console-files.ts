import { access } from "node:fs/promises";
import { basename, join } from "node:path";
import { fileURLToPath } from "node:url";
import fastifyStatic from "@fastify/static";
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";

/** Folder of the build of apps/console in a checkout. */
const BUILD = fileURLToPath(new URL("../../../console/dist", import.meta.url));
const YEAR_S = 31_536_000;
/** Paths for programs, in any spelling: an unknown path below them gets a problem document instead of the page. */
const RESERVED = /^\/+(v1|auth|openapi\.json|healthz|readyz|assets)(\/|$)/i;

/** Content security policy of pages: only this host, without inline scripts and inline styles. */
export const PAGE_POLICY = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "img-src 'self' data:",
  "font-src 'self'",
  "connect-src 'self'",
  "manifest-src 'self'",
  "base-uri 'none'",
  "form-action 'self'",
  "frame-ancestors 'none'",
].join("; ");
const PAGE_HEADERS = { "content-security-policy": PAGE_POLICY, "cross-origin-opener-policy": "same-origin" };

const NO_CONSOLE = `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<title>Muster</title>
<h1>Muster</h1>
<p>No web console is installed here. GATEWAY_CONSOLE_DIR names the folder of its files.</p>
<p>The HTTP API is at <a href="/openapi.json">/openapi.json</a>.</p>
</html>
`;

/** Answers a path without a route; returns false if the path does not belong to the console. */
export type SendPage = (request: FastifyRequest, reply: FastifyReply) => boolean;

/**
 * Adds a route for each file that the console has at the start, so that no path leaves the folder. The returned function sends the first page at every other
 * path, because the page itself reads its state from the path.
 */
export async function addConsole(server: FastifyInstance, directory = BUILD): Promise<SendPage> {
  const isInstalled = await access(join(directory, "index.html")).then(
    () => true,
    () => false,
  );
  if (isInstalled)
    await server.register(fastifyStatic, {
      root: directory,
      wildcard: false,
      preCompressed: true,
      globIgnore: ["**/*.br", "**/*.gz"],
      cacheControl: false,
      setHeaders: (reply, path) => void reply.headers({ ...PAGE_HEADERS, "cache-control": cacheControlOf(path) }),
    });
  else server.get("/", (_request, reply) => sendNoConsole(reply));
  return (request, reply) => {
    const path = request.url.split("?")[0] ?? "";
    if (!["GET", "HEAD"].includes(request.method) || RESERVED.test(path)) return false;
    void (isInstalled ? reply.sendFile("index.html") : sendNoConsole(reply));
    return true;
  };
}

function sendNoConsole(reply: FastifyReply): FastifyReply {
  return reply
    .headers({ ...PAGE_HEADERS, "cache-control": "no-store" })
    .type("text/html; charset=utf-8")
    .send(NO_CONSOLE);
}

/** The name of an asset changes with its content, so browsers may cache it. The page that names the assets is never cached. */
function cacheControlOf(path: string): string {
  if (/^index\.html(\.br|\.gz)?$/.test(basename(path))) return "no-store";
  return /[\\/]assets[\\/]/.test(path) ? `public, max-age=${YEAR_S}, immutable` : "no-cache";
}
