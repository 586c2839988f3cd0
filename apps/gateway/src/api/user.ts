import type { Right } from "@muster/gateway-api";

/** Who asks, as Kubernetes or the issuer of the token names them. */
export type User = {
  readonly name: string;
  readonly uid?: string | undefined;
  readonly groups: readonly string[];
  readonly extra?: Readonly<Record<string, readonly string[]>> | undefined;
  /** The owner of the local token, who may do everything. */
  readonly isLocal?: true;
};

/**
 * Undefined: no user whom this authenticator knows has the token. Rejects with FaultError unavailable where that cannot be found out now. Never logs the
 * token, and no error has it.
 */
export type Authenticate = (token: string) => Promise<User | undefined>;

/** A right on one object, or on all of them. */
export type Access = Right & {
  /** Empty: of the whole cluster, or in all namespaces. */
  readonly namespace: string;
  /** Empty: none is named. */
  readonly name: string;
};

/** Whether the user has the right. Rejects with FaultError unavailable where that cannot be found out now. */
export type Authorize = (user: User, access: Access) => Promise<boolean>;

/** The first authenticator that knows the user decides. */
export function firstThatKnows(authenticators: readonly Authenticate[]): Authenticate {
  return async (token) => {
    for (const authenticate of authenticators) {
      const user = await authenticate(token);
      if (user !== undefined) return user;
    }
    return undefined;
  };
}
