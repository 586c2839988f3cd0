import * as oidc from "openid-client";
import { CommandError } from "../command-error.ts";
import { putNamed, type OidcConfig } from "../domain/contexts.ts";
import { isLoopback } from "../domain/decide-gateway.ts";
import { EXIT } from "../domain/decide-exit.ts";
import { readContexts, writeContexts } from "./context-file.ts";

const DISCOVERY_TIMEOUT_S = 10;

export type DeviceSignIn = {
  readonly config: OidcConfig;
  readonly scope: string;
  /** Prints lines for the user: the address at which to confirm, and the code. */
  readonly print: (lines: readonly string[]) => void;
  readonly signal: AbortSignal;
};

/** Signs a user in by the device flow of OAuth 2.0, and returns the configuration with the tokens. Rejects with CommandError. */
export async function signInByDevice({ config, scope, print, signal }: DeviceSignIn): Promise<OidcConfig> {
  const issuer = config["idp-issuer-url"];
  return explained(issuer, signal, async () => {
    const client = await discover(config);
    if (client.serverMetadata().device_authorization_endpoint === undefined)
      throw new CommandError(EXIT.refused, `the issuer ${issuer} has no device flow`, {
        hint: "`muster login --token-file FILE` takes a token from elsewhere",
      });
    const device = await oidc.initiateDeviceAuthorization(client, { scope });
    print([
      `open ${device.verification_uri_complete ?? device.verification_uri}`,
      `and confirm the code ${device.user_code}`,
    ]);
    return withTokens(config, await oidc.pollDeviceAuthorizationGrant(client, device, undefined, { signal }));
  });
}

/**
 * Renews the tokens of the user, stores them in the file, and returns the configuration with them. Rejects with CommandError if the user must sign in again.
 */
export async function refreshTokens(name: string, config: OidcConfig, contextFile: string): Promise<OidcConfig> {
  const kept = readContexts(contextFile).users.find((each) => each.name === name)?.user["auth-provider"]?.config;
  // Another process renewed the tokens since they were read.
  if (kept !== undefined && kept["id-token"] !== config["id-token"] && kept["id-token"] !== undefined) return kept;
  const token = config["refresh-token"];
  if (token === undefined)
    throw new CommandError(EXIT.refused, `the sign-in of user ${name} has expired`, {
      hint: "`muster login` signs in",
    });
  const renewed = await explained(config["idp-issuer-url"], undefined, async () =>
    withTokens(config, await oidc.refreshTokenGrant(await discover(config), token)),
  );
  const contexts = readContexts(contextFile);
  const user = { "auth-provider": { name: "oidc", config: renewed } } as const;
  writeContexts(contextFile, { ...contexts, users: putNamed(contexts.users, { name, user }) });
  return renewed;
}

function discover(config: OidcConfig): Promise<oidc.Configuration> {
  const issuer = new URL(config["idp-issuer-url"]);
  const isLocal = issuer.protocol === "http:" && isLoopback(issuer);
  return oidc.discovery(issuer, config["client-id"], config["client-secret"], undefined, {
    timeout: DISCOVERY_TIMEOUT_S,
    // Deprecated in name only, so that it stands out: local issuers have no TLS.
    // eslint-disable-next-line @typescript-eslint/no-deprecated
    ...(isLocal && { execute: [oidc.allowInsecureRequests] }),
  });
}

function withTokens(
  config: OidcConfig,
  { id_token: id, refresh_token: refresh }: Pick<oidc.TokenEndpointResponse, "id_token" | "refresh_token">,
): OidcConfig {
  if (id === undefined)
    throw new CommandError(EXIT.refused, `the issuer ${config["idp-issuer-url"]} gives no id token`, {
      hint: "add openid to --scope",
    });
  return { ...config, "id-token": id, ...(refresh !== undefined && { "refresh-token": refresh }) };
}

async function explained<Value>(
  issuer: string,
  signal: AbortSignal | undefined,
  ask: () => Promise<Value>,
): Promise<Value> {
  try {
    return await ask();
  } catch (cause) {
    if (cause instanceof CommandError) throw cause;
    if (signal?.aborted === true) throw new CommandError(EXIT.interrupted, "interrupted", { cause });
    if (cause instanceof oidc.ResponseBodyError)
      throw new CommandError(EXIT.refused, `the issuer ${issuer} refuses the sign-in: ${describeRefusal(cause)}`, {
        hint: "`muster login` starts a new one",
        cause,
      });
    throw new CommandError(EXIT.unreachable, `cannot sign in at the issuer ${issuer}: ${deepestMessage(cause)}`, {
      hint: "check its address, and name the CA certificates that verify it in NODE_EXTRA_CA_CERTS",
      cause,
    });
  }
}

function describeRefusal({ error, error_description: description }: oidc.ResponseBodyError): string {
  return description === undefined ? error : `${error}: ${description}`;
}

function deepestMessage(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  return error.cause instanceof Error ? deepestMessage(error.cause) : error.message;
}
