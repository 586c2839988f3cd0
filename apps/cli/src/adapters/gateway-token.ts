import { CommandError } from "../command-error.ts";
import type { Exec, OidcConfig } from "../domain/contexts.ts";
import type { Gateway } from "../domain/decide-gateway.ts";
import { EXIT } from "../domain/decide-exit.ts";
import { resolveFromContextFile, readSecretFile } from "./context-file.ts";

/** Provides the token of the user. Rejects with a CommandError that states the next step. */
export type TokenSource = {
  /** Returns undefined if the user has no token. */
  readonly token: () => Promise<string | undefined>;
  /** Returns a token newer than the last one; undefined if none exists. */
  readonly renew: () => Promise<string | undefined>;
};

/** Renewed tokens are stored in `contextFile`. */
export function makeTokenSource({ credential }: Gateway, contextFile: string): TokenSource {
  const fixed = (read: () => string | undefined): TokenSource => ({
    token: () => Promise.resolve(read()),
    renew: () => Promise.resolve(undefined),
  });
  switch (credential.kind) {
    case "none":
      return fixed(() => undefined);
    case "token":
      return fixed(() => credential.token);
    case "token-file":
      return fixed(() => readSecretFile(credential.file));
    case "user": {
      const { name, user } = credential;
      if (user.exec !== undefined) return execTokens(name, user.exec);
      if (user["auth-provider"] !== undefined) return oidcTokens(name, user["auth-provider"].config, contextFile);
      const { tokenFile } = user;
      return fixed(() =>
        tokenFile === undefined ? user.token : readSecretFile(resolveFromContextFile(contextFile, tokenFile)),
      );
    }
  }
}

/** Runs the user's program for a token once, and again after the gateway refused its token. */
function execTokens(name: string, exec: Exec): TokenSource {
  let made: Promise<string> | undefined;
  const run = async (): Promise<string> => {
    const { ExecAuth } = await import("@kubernetes/client-node/dist/exec_auth.js");
    const info = { apiVersion: exec.apiVersion, kind: "ExecCredential", spec: { interactive: false } };
    const env = [...(exec.env ?? []), { name: "KUBERNETES_EXEC_INFO", value: JSON.stringify(info) }];
    const options: { headers?: Record<string, string> } = {};
    try {
      await new ExecAuth().applyAuthentication({ name, exec: { ...exec, env } }, options);
    } catch (cause) {
      const reason = cause instanceof Error ? cause.message.trim() : String(cause);
      throw new CommandError(EXIT.usage, `the program ${exec.command} of user ${name} gives no token: ${reason}`, {
        cause,
      });
    }
    const token = options.headers?.["Authorization"]?.replace("Bearer ", "");
    if (token !== undefined) return token;
    throw new CommandError(EXIT.usage, `the program ${exec.command} of user ${name} gives no token`, {
      hint: "its ExecCredential needs status.token: the gateway takes no client certificates",
    });
  };
  return {
    token: () => (made ??= run()),
    renew: () => (made = run()),
  };
}

/** Renews a token shortly before it expires. */
const EARLY_MS = 10_000;

function oidcTokens(name: string, config: OidcConfig, contextFile: string): TokenSource {
  let current = config;
  let renewing: Promise<string | undefined> | undefined;
  const renew = async (): Promise<string | undefined> => {
    const { refreshTokens } = await import("./sign-in.ts");
    current = await refreshTokens(name, current, contextFile);
    return current["id-token"];
  };
  // Concurrent calls renew together: an issuer may accept a refresh token only once.
  const renewOnce = (): Promise<string | undefined> => {
    renewing ??= renew().finally(() => (renewing = undefined));
    return renewing;
  };
  return {
    token: () => {
      const token = current["id-token"];
      const isOver = token === undefined || expiryOf(token) - EARLY_MS < Date.now();
      return isOver ? renewOnce() : Promise.resolve(token);
    },
    renew: renewOnce,
  };
}

/** Returns the expiry in ms since 1970, and 0 for a text that is no token. The gateway verifies the token. */
function expiryOf(token: string): number {
  try {
    const { exp } = JSON.parse(Buffer.from(token.split(".")[1] ?? "", "base64url").toString()) as { exp?: unknown };
    return typeof exp === "number" ? exp * 1000 : 0;
  } catch {
    return 0;
  }
}
