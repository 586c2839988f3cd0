import { getContexts, setContext, unsetContext, useContext, viewContexts } from "../commands/contexts.ts";
import { login, logout } from "../commands/login.ts";
import { argument, defineCommand, option, withDefault, type CommandRow } from "./command-row.ts";
import { OUTPUT } from "./shared-options.ts";

const NAME = argument("<name>", "name of the context");

const CONFIG: CommandRow = {
  name: "config",
  description: "Manage contexts: gateways and their users, as in a kubeconfig.",
  text: `The file is ~/.config/muster/config.yaml, or MUSTER_CONFIG, in the form of a
kubeconfig: its users may have token, tokenFile, exec or the auth-provider oidc.
Without a current context commands ask over NATS.`,
  examples: [
    "muster config set-context prod --server https://muster.example -n research",
    "muster config use-context prod",
    "muster --context prod get sessions",
  ],
  commands: [
    defineCommand({
      name: "get-contexts",
      description: "List the contexts.",
      options: { output: OUTPUT },
      examples: ["muster config get-contexts"],
      run: (cli, _, { output }) => getContexts(cli, output),
    }),
    defineCommand({
      name: "use-context",
      description: "Make this context the current one.",
      arguments: [NAME],
      examples: ["muster config use-context prod"],
      run: (cli, [name]) => useContext(cli, name),
    }),
    defineCommand({
      name: "unset-context",
      description: "Unset the current context: commands use NATS again.",
      examples: ["muster config unset-context"],
      run: (cli) => unsetContext(cli),
    }),
    defineCommand({
      name: "set-context",
      description: "Create or change a context, with --server, --namespace, --token-file and --certificate-authority.",
      arguments: [NAME],
      options: { output: OUTPUT },
      examples: ["muster config set-context prod --server https://muster.example -n research"],
      run: (cli, [name], { output }) => setContext(cli, name, output),
    }),
    defineCommand({
      name: "view",
      description: "Print the file of contexts without its secrets.",
      options: { output: OUTPUT },
      examples: ["muster config view -o json"],
      run: (cli, _, { output }) => viewContexts(cli, output),
    }),
  ],
};

const LOGIN = defineCommand({
  name: "login",
  description: "Sign in at a gateway, and make its context the current one.",
  options: {
    issuer: option("--issuer <url>", "the OpenID Connect issuer that the gateway trusts; the device flow signs in"),
    clientId: option("--client-id <id>", "client id of this command at the issuer; default: muster"),
    scope: withDefault(option("--scope <words>", "scopes of the tokens"), "openid offline_access"),
  },
  text: `Without --issuer and --token-file it uses the issuer and client id that the
context has from the last login. Tokens are in the file of contexts, which only
its owner may read, and are renewed when they expire.`,
  examples: [
    "muster login --server https://muster.example --issuer https://id.example",
    "muster login --server https://muster.example --token-file ~/.muster-token",
    "muster login",
  ],
  run: (cli, _, options) => login(cli, options),
});

const LOGOUT = defineCommand({
  name: "logout",
  description: "Remove the tokens of the current context, or of --context.",
  examples: ["muster logout", "muster logout --context prod"],
  run: (cli) => logout(cli),
});

export const CONTEXTS: readonly CommandRow[] = [LOGIN, LOGOUT, CONFIG];
