import type { Right } from "@muster/gateway-api";

/** A user with the names that Kubernetes or the issuer of the token uses. */
export type User = {
  readonly name: string;
  readonly uid?: string | undefined;
  readonly groups: readonly string[];
  readonly extra?: Readonly<Record<string, readonly string[]>> | undefined;
  /** Set for the owner of the local token, who has all rights. */
  readonly isLocal?: true;
};

/**
 * Returns the user of the token; undefined if this authenticator knows no user of it. Rejects with FaultError unavailable if the check is impossible now. Never
 * logs the token, and no error contains the token.
 */
export type Authenticate = (token: string) => Promise<User | undefined>;

/** A right on one object, or on all objects of a resource. */
export type Access = Right & {
  /** Empty for the whole cluster, or all namespaces. */
  readonly namespace: string;
  /** Empty for all objects. */
  readonly name: string;
};

/** Returns whether the user has the right. Rejects with FaultError unavailable if the check is impossible now. */
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
