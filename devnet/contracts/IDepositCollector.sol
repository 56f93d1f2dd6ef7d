// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

/// A contract that fetches the tokens of a deposit and transfers them to its caller.
interface IDepositCollector {
    function collect(address payer, address token, uint256 amount, bytes32 channelId, bytes calldata data) external;
}
