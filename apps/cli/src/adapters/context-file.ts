import { chmodSync, mkdirSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } from "node:fs";
import { dirname, isAbsolute, join } from "node:path";
import { parse, stringify } from "yaml";
import { z } from "zod";
import { CommandError } from "../command-error.ts";
import { NO_CONTEXTS, type Contexts } from "../domain/contexts.ts";
import { EXIT } from "../domain/decide-exit.ts";

const TEXT = z.string().optional();
const EXEC = z.looseObject({
  apiVersion: z.string(),
  command: z.string(),
  args: z.array(z.string()).nullish(),
  env: z.array(z.object({ name: z.string(), value: z.string() })).nullish(),
});
const OIDC = z.looseObject({
  name: z.literal("oidc", "only oidc is supported"),
  config: z.looseObject({
    "idp-issuer-url": z.string(),
    "client-id": z.string(),
    "client-secret": TEXT,
    "id-token": TEXT,
    "refresh-token": TEXT,
  }),
});
/** Other fields of a kubeconfig stay as they are. */
const FILE = z.looseObject({
  "current-context": TEXT,
  clusters: z
    .array(
      z.looseObject({
        name: z.string(),
        cluster: z.looseObject({
          server: z.string(),
          "certificate-authority": TEXT,
          "certificate-authority-data": TEXT,
        }),
      }),
    )
    .default([]),
  users: z
    .array(
      z.looseObject({
        name: z.string(),
        user: z.looseObject({ token: TEXT, tokenFile: TEXT, exec: EXEC.optional(), "auth-provider": OIDC.optional() }),
      }),
    )
    .default([]),
  contexts: z
    .array(
      z.looseObject({
        name: z.string(),
        context: z.looseObject({ cluster: z.string(), user: TEXT, namespace: TEXT }),
      }),
    )
    .default([]),
});

const OTHERS_MAY_READ = 0o077;

/**
 * Reads the file of contexts; a missing file has no contexts. Throws CommandError for an invalid file, and for a file with secrets that other users may read.
 */
export function readContexts(path: string): Contexts {
  const text = readText(path);
  if (text === undefined) return NO_CONTEXTS;
  const read = FILE.safeParse(parseYaml(path, text) ?? {});
  if (!read.success) {
    const reasons = z.prettifyError(read.error).replaceAll(/\s*\n\s*/g, " ");
    throw new CommandError(EXIT.usage, `${path} is no file of contexts: ${reasons}`);
  }
  if (hasSecrets(read.data)) requirePrivate(path);
  return read.data;
}

/** Replaces the whole file and makes it readable only by its owner. Throws CommandError if it cannot be written. */
export function writeContexts(path: string, contexts: Contexts): void {
  const written = `${path}.${process.pid}`;
  try {
    mkdirSync(dirname(path), { recursive: true, mode: 0o700 });
    const content = { apiVersion: "v1", kind: "Config", ...contexts };
    writeFileSync(written, stringify(content), { mode: 0o600 });
    chmodSync(written, 0o600);
    renameSync(written, path);
  } catch (cause) {
    rmSync(written, { force: true });
    throw new CommandError(EXIT.usage, `writing ${path}: ${reasonOf(cause)}`, { cause });
  }
}

/** Resolves a path in the file of contexts relative to that file. */
export function resolveFromContextFile(contextFile: string, path: string): string {
  return isAbsolute(path) ? path : join(dirname(contextFile), path);
}

/** Reads a file that contains a secret. Throws CommandError if the file cannot be read, is empty, or other users may read it. */
export function readSecretFile(path: string): string {
  const text = readText(path)?.trim();
  if (text === undefined || text === "")
    throw new CommandError(EXIT.usage, `${path} ${text === undefined ? "does not exist" : "is empty"}`, {
      hint: "a file with a token is needed",
    });
  requirePrivate(path);
  return text;
}

function requirePrivate(path: string): void {
  if ((statSync(path).mode & OTHERS_MAY_READ) === 0) return;
  throw new CommandError(EXIT.usage, `other users may read the secrets in ${path}`, { hint: `\`chmod 600 ${path}\`` });
}

function hasSecrets({ users }: Contexts): boolean {
  return users.some(({ user }) => user.token !== undefined || user["auth-provider"] !== undefined);
}

/** Returns undefined if the file does not exist. */
function readText(path: string): string | undefined {
  try {
    return readFileSync(path, "utf8");
  } catch (cause) {
    if (cause instanceof Error && "code" in cause && (cause.code === "ENOENT" || cause.code === "ENOTDIR")) return;
    throw new CommandError(EXIT.usage, `reading ${path}: ${reasonOf(cause)}`, { cause });
  }
}

function parseYaml(path: string, text: string): unknown {
  try {
    return parse(text);
  } catch (cause) {
    throw new CommandError(EXIT.usage, `${path} is no YAML: ${reasonOf(cause)}`, { cause });
  }
}

function reasonOf(cause: unknown): string {
  return cause instanceof Error ? cause.message : String(cause);
}
