import type { Right } from "@muster/gateway-api";

/** The user, as Kubernetes or the issuer of the token names it. */
export type User = {
  readonly name: string;
  readonly uid?: string | undefined;
  readonly groups: readonly string[];
  readonly extra?: Readonly<Record<string, readonly string[]>> | undefined;
  /** Set for the owner of the local token, who has all rights. */
  readonly isLocal?: true;
};

/**
 * Undefined if no user known to this authenticator has the token. Rejects with FaultError unavailable if this cannot be checked now. Never logs the token, and
 * no error contains it.
 */
export type Authenticate = (token: string) => Promise<User | undefined>;

/** A right on one object, or on all of them. */
export type Access = Right & {
  /** Empty for the whole cluster, or all namespaces. */
  readonly namespace: string;
  /** Empty for all objects. */
  readonly name: string;
};

/** Returns whether the user has the right. Rejects with FaultError unavailable if this cannot be checked now. */
export type Authorize = (user: User, access: Access) => Promise<boolean>;

/** Combines authenticators: the first one that knows the user decides. */
export function chainAuthenticators(authenticators: readonly Authenticate[]): Authenticate {
  return async (token) => {
    for (const authenticate of authenticators) {
      const user = await authenticate(token);
      if (user !== undefined) return user;
    }
    return undefined;
  };
}
