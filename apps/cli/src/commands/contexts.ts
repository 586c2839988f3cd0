import { resolve } from "node:path";
import type { Cli } from "../cli.ts";
import { CommandError } from "../command-error.ts";
import { putNamed, resolveContext, removeTrailingSlash, type Contexts, type User } from "../domain/contexts.ts";
import { EXIT, type ExitCode } from "../domain/decide-exit.ts";
import { hideUserInfo, isGatewayAddress } from "../domain/decide-gateway.ts";
import { buildTable } from "../domain/build-table.ts";
import { printForms, printLine, type Format } from "./output.ts";

const KNOWN = "`muster config get-contexts` shows those that exist";

/** `muster config get-contexts`: lists the contexts. */
export async function getContexts(cli: Cli, output: Format): Promise<ExitCode> {
  const all = await cli.contexts.read();
  const current = all["current-context"];
  const rows = all.contexts.map(({ name, context: { namespace = "default", user = "" } }) => {
    const server = resolveContext(all, name)?.cluster.server ?? "";
    return { name, server, user, namespace, isCurrent: name === current };
  });
  printForms(cli.io, output, {
    table: (style) =>
      rows.length === 0
        ? ["no contexts"]
        : buildTable(
            ["CURRENT", "NAME", "SERVER", "USER", "NAMESPACE"],
            rows.map(({ name, server, user, namespace, isCurrent }) => [
              isCurrent ? "*" : "",
              name,
              server,
              user,
              namespace,
            ]),
            style,
          ),
    data: () => rows,
  });
  return EXIT.ok;
}

/** `muster config use-context NAME`: makes a context the current one. */
export async function useContext(cli: Cli, name: string): Promise<ExitCode> {
  const all = await cli.contexts.read();
  if (resolveContext(all, name) === undefined)
    throw new CommandError(EXIT.usage, `no context is called ${name}`, { hint: KNOWN });
  await cli.contexts.write({ ...all, "current-context": name });
  cli.io.out([`the current context is ${name}`]);
  return EXIT.ok;
}

/** `muster config unset-context`: commands use NATS again. */
export async function unsetContext(cli: Cli): Promise<ExitCode> {
  const { "current-context": _, ...all } = await cli.contexts.read();
  await cli.contexts.write(all);
  cli.io.out(["no context is current"]);
  return EXIT.ok;
}

/** `muster config set-context NAME`: creates or changes a context. */
export async function setContext(cli: Cli, name: string, output: Format): Promise<ExitCode> {
  const { server, namespace, tokenFile, certificateAuthority } = cli.common();
  const before = await cli.contexts.read();
  const user: User | undefined = tokenFile === undefined ? undefined : { tokenFile: resolve(tokenFile) };
  const all = putContext(before, name, { server, namespace, certificateAuthority, user });
  await cli.contexts.write(all);
  printLine(cli.io, output, `context ${name} is set`, () => resolveContext(withoutSecrets(all), name));
  return EXIT.ok;
}

/** `muster config view`: prints the file without its secrets. */
export async function viewContexts(cli: Cli, output: Format): Promise<ExitCode> {
  const { stringify } = await import("yaml");
  const all = withoutSecrets(await cli.contexts.read());
  printForms(cli.io, output, { table: () => stringify(all).trimEnd().split("\n"), data: () => all });
  return EXIT.ok;
}

type ContextParts = {
  readonly server: string | undefined;
  readonly namespace?: string | undefined;
  readonly certificateAuthority?: string | undefined;
  readonly user?: User | undefined;
};

/** Adds or changes a context, its cluster and its user, which all have the same name. Throws CommandError for a new context without a server. */
export function putContext(
  all: Contexts,
  name: string,
  { server, namespace, certificateAuthority: authority, user }: ContextParts,
): Contexts {
  const known = resolveContext(all, name);
  const address = server ?? known?.cluster.server;
  if (address === undefined)
    throw new CommandError(EXIT.usage, `context ${name} has no server`, { hint: "set it with --server https://…" });
  if (!isGatewayAddress(address))
    throw new CommandError(EXIT.usage, `"${hideUserInfo(address)}" is no address of a gateway`, {
      hint: "name one such as https://muster.example.com",
    });
  const before = all.contexts.find((each) => each.name === name)?.context;
  const clusterName = before?.cluster ?? name;
  const userName = before?.user ?? name;
  const cluster = {
    ...known?.cluster,
    server: removeTrailingSlash(address),
    ...(authority !== undefined && { "certificate-authority": resolve(authority) }),
  };
  const context = {
    ...before,
    cluster: clusterName,
    user: userName,
    ...(namespace !== undefined && { namespace }),
  };
  return {
    ...all,
    clusters: putNamed(all.clusters, { name: clusterName, cluster }),
    users: user === undefined ? all.users : putNamed(all.users, { name: userName, user }),
    contexts: putNamed(all.contexts, { name, context }),
  };
}

const SECRET = "REDACTED";

function withoutSecrets(all: Contexts): Contexts {
  return { ...all, users: all.users.map(({ name, user }) => ({ name, user: redact(user) })) };
}

function redact(user: User): User {
  const { token, exec, "auth-provider": provider } = user;
  return {
    ...user,
    ...(token !== undefined && { token: SECRET }),
    ...(exec?.env && { exec: { ...exec, env: exec.env.map(({ name }) => ({ name, value: SECRET })) } }),
    ...(provider && {
      "auth-provider": {
        ...provider,
        config: {
          ...provider.config,
          ...(provider.config["client-secret"] !== undefined && { "client-secret": SECRET }),
          ...(provider.config["id-token"] !== undefined && { "id-token": SECRET }),
          ...(provider.config["refresh-token"] !== undefined && { "refresh-token": SECRET }),
        },
      },
    }),
  };
}
