// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {IERC1271} from "@openzeppelin/contracts/interfaces/IERC1271.sol";
import {ECDSA} from "@openzeppelin/contracts/utils/cryptography/ECDSA.sol";

/// A payer with code, for tests. It accepts the signature of its owner with one extra byte in front, so a plain signature is not valid.
contract SmartWallet is IERC1271 {
    address private immutable _owner;

    constructor(address owner) {
        _owner = owner;
    }

    function isValidSignature(bytes32 hash, bytes calldata signature) external view returns (bytes4) {
        if (signature.length != 66) return 0xffffffff;
        (address signer,,) = ECDSA.tryRecoverCalldata(hash, signature[1:]);
        return signer == _owner ? IERC1271.isValidSignature.selector : bytes4(0xffffffff);
    }
}
