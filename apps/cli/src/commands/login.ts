import { resolve } from "node:path";
import type { Cli } from "../cli.ts";
import { CommandError } from "../command-error.ts";
import {
  findServerContext,
  putNamed,
  resolveContext,
  type Contexts,
  type OidcConfig,
  type ResolvedContext,
  type User,
} from "../domain/contexts.ts";
import { findPlainHttp, hideUserInfo } from "../domain/decide-gateway.ts";
import { EXIT, type ExitCode } from "../domain/decide-exit.ts";
import { putContext } from "./contexts.ts";

export type LoginOptions = {
  readonly issuer: string | undefined;
  readonly clientId: string | undefined;
  readonly scope: string;
};

/** `muster login`: signs in, and makes the gateway's context the current one. */
export async function login(cli: Cli, options: LoginOptions): Promise<ExitCode> {
  const { server = cli.server, certificateAuthority, tokenFile } = cli.common();
  const before = await cli.contexts.read();
  const known = findContext(cli, before);
  const name = known?.name ?? (server === undefined ? undefined : new URL(requireUrl(server)).host);
  if (name === undefined)
    throw new CommandError(EXIT.usage, "no gateway is given", {
      hint: "use `muster login --server https://muster.example.com`, or choose a context with `muster config use-context`",
    });
  // An invalid address is refused before the command asks the issuer.
  const address = resolveContext(putContext(before, name, { server }), name)?.cluster.server ?? "";
  const plain = findPlainHttp(address, `context ${name}`, cli);
  if (plain !== undefined) throw new CommandError(EXIT.usage, plain.problem, { hint: plain.hint });
  const user = await signIn(cli, known, tokenFile, options);
  const all = putContext(await cli.contexts.read(), name, { server, certificateAuthority, user });
  await cli.contexts.write({ ...all, "current-context": name });
  cli.io.out([`signed in at ${resolveContext(all, name)?.cluster.server ?? ""}; the current context is ${name}`]);
  return EXIT.ok;
}

/** `muster logout`: removes the tokens of the context's user. */
export async function logout(cli: Cli): Promise<ExitCode> {
  const all = await cli.contexts.read();
  const known = findContext(cli, all);
  if (known === undefined)
    throw new CommandError(EXIT.usage, "no context is current", {
      hint: "`muster config get-contexts` lists the contexts; choose one with --context",
    });
  if (known.user !== undefined) {
    const { name, user } = known.user;
    await cli.contexts.write({ ...all, users: putNamed(all.users, { name, user: withoutTokens(user) }) });
  }
  const isCurrent = known.name === all["current-context"];
  cli.io.out([
    `signed out of ${known.cluster.server}`,
    ...(isCurrent ? [`${known.name} stays the current context; \`muster config unset-context\` changes that`] : []),
  ]);
  return EXIT.ok;
}

function findContext(cli: Cli, all: Contexts): ResolvedContext | undefined {
  const { server = cli.server, context } = cli.common();
  if (context !== undefined) {
    const found = resolveContext(all, context);
    if (found !== undefined) return found;
    throw new CommandError(EXIT.usage, `no context is called ${context}`, {
      hint: "`muster config get-contexts` shows those that exist",
    });
  }
  return server === undefined ? resolveContext(all, all["current-context"] ?? "") : findServerContext(all, server);
}

function requireUrl(server: string): string {
  if (URL.canParse(server)) return server;
  throw new CommandError(EXIT.usage, `"${hideUserInfo(server)}" is no address of a gateway`, {
    hint: "name one such as https://muster.example.com",
  });
}

async function signIn(
  cli: Cli,
  known: ResolvedContext | undefined,
  tokenFile: string | undefined,
  { issuer, clientId, scope }: LoginOptions,
): Promise<User> {
  if (tokenFile !== undefined) {
    const { readSecretFile } = await import("../adapters/context-file.ts");
    readSecretFile(tokenFile);
    return { tokenFile: resolve(tokenFile) };
  }
  const before = known?.user?.user["auth-provider"]?.config;
  const named = issuer === undefined ? before : configOf(issuer, clientId, before);
  if (named === undefined)
    throw new CommandError(EXIT.usage, "no way to sign in is given", {
      hint: "use --issuer https://… with an OpenID Connect issuer, or --token-file with a file that contains a token",
    });
  if (!URL.canParse(named["idp-issuer-url"]))
    throw new CommandError(EXIT.usage, `"${named["idp-issuer-url"]}" is no address of an issuer`);
  const { signInByDevice } = await import("../adapters/sign-in.ts");
  const signed = await signInByDevice({ config: named, scope, print: cli.io.err, signal: cli.interrupts.first });
  return { "auth-provider": { name: "oidc", config: signed } };
}

/** The file of contexts contains the client secret, because other users of a machine can read command lines. */
function configOf(issuer: string, clientId: string | undefined, before: OidcConfig | undefined): OidcConfig {
  const known = before?.["idp-issuer-url"] === issuer ? before : undefined;
  return { ...known, "idp-issuer-url": issuer, "client-id": clientId ?? known?.["client-id"] ?? "muster" };
}

function withoutTokens({ token: _token, tokenFile: _file, "auth-provider": provider, ...user }: User): User {
  if (provider === undefined) return user;
  const { "id-token": _id, "refresh-token": _refresh, ...config } = provider.config;
  return { ...user, "auth-provider": { ...provider, config } };
}
