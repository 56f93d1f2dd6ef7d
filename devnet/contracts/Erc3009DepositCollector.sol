// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {IERC20} from "@openzeppelin/contracts/token/ERC20/IERC20.sol";
import {SafeERC20} from "@openzeppelin/contracts/token/ERC20/utils/SafeERC20.sol";
import {IDepositCollector} from "./IDepositCollector.sol";

interface IReceiveWithAuthorization {
    function receiveWithAuthorization(
        address from,
        address to,
        uint256 value,
        uint256 validAfter,
        uint256 validBefore,
        bytes32 nonce,
        bytes calldata signature
    ) external;
}

/**
 * Fetches a deposit by the payer's EIP-3009 authorization, for a local chain.
 *
 * The authorization names this contract as payee, and its nonce is made from the channel's id. Whoever brings it funds the channel
 * that the payer meant.
 */
contract Erc3009DepositCollector is IDepositCollector {
    using SafeERC20 for IERC20;

    error OnlyX402BatchSettlement();
    error InvalidX402BatchSettlementAddress();

    // solhint-disable-next-line immutable-vars-naming
    address public immutable x402BatchSettlement;

    constructor(address settlement) {
        require(settlement != address(0), InvalidX402BatchSettlementAddress());
        x402BatchSettlement = settlement;
    }

    function collect(address payer, address token, uint256 amount, bytes32 channelId, bytes calldata data) external {
        require(msg.sender == x402BatchSettlement, OnlyX402BatchSettlement());
        (uint256 validAfter, uint256 validBefore, uint256 salt, bytes memory signature) =
            abi.decode(data, (uint256, uint256, uint256, bytes));
        bytes32 nonce = keccak256(abi.encode(channelId, salt));
        IReceiveWithAuthorization(token).receiveWithAuthorization(
            payer, address(this), amount, validAfter, validBefore, nonce, signature
        );
        IERC20(token).safeTransfer(msg.sender, amount);
    }
}
